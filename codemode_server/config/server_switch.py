"""Switches servers of a configuration file on and off; the rest of the file stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codemode_server.config import saving
from codemode_server.config.places import ConfigFile

_NOTICED = "a running codemode-server notices in seconds"


@dataclass(frozen=True, slots=True)
class Switched:
    """What was done, each in a line for the person."""

    text: str
    trust_needed: str
    """What the person has to do before the file is used; empty if nothing."""


def switch_servers(place: ConfigFile, names: Sequence[str], *, is_enabled: bool) -> Switched:
    """Switch all of these servers, or none if one can't be. Blocks.

    Raises:
        CodemodeError: there is no such file or server, or the file can't be edited.
    """
    saving.check_exists(place)
    with saving.locked(place) as file:
        for name in names:
            file.text.set_enabled(name, is_enabled=is_enabled)
        file.save()
    done = f"{'enabled' if is_enabled else 'disabled'}: {', '.join(names)}"
    return Switched(done, file.trust_needed) if file.needs_trust else Switched(f"{done}; {_NOTICED}", "")
