"""Principal, session and owner (of stored data), and which names a principal or a group can have.

A name becomes the name of a folder, on any file system, and part of the names of secrets. Names are ASCII in lower
case: so Unicode has one form for each, and no two names look alike or are one name for a file system.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codemode_server.domain.ids import PrincipalId


@dataclass(frozen=True, slots=True)
class Principal:
    """Owner of workspaces, permissions, artifacts, journal and audit rows. Chosen by the configuration or by
    authentication, never by the model or a program."""

    principal_id: PrincipalId


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a request over HTTP proved to come from."""

    principal: Principal
    groups: frozenset[str] = frozenset()
    """The groups that the authentication names; the configuration may add others."""


@dataclass(frozen=True, slots=True)
class Session:
    session_id: str
    is_ephemeral: bool = False
    """True if it ends with this one request, so that nothing is stored for later ones."""
    folder: str = field(default="", compare=False)
    """Absolute path of the host's working folder; empty where none is known, as over HTTP. It says where the host works
    and not who it is: sessions are equal by their ids, and a session that the journal returns has none."""


@dataclass(frozen=True, slots=True)
class Owner:
    principal: Principal
    session: Session

    def may_read(self, other: Owner) -> bool:
        """True if this owner may read artifacts of `other`. Ephemeral sessions can't be distinguished, so any of them
        may read an artifact by its exact name."""
        is_same_session = self.session.session_id == other.session.session_id
        are_ephemeral = self.session.is_ephemeral and other.session.is_ephemeral
        return self.principal == other.principal and (is_same_session or are_ephemeral)


DEVICE_NAMES = frozenset({"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
"""In lower case; Windows ignores case."""


PRINCIPAL_VARIABLE = "CODEMODE_PRINCIPAL"
"""Names the principal of this process. One in `.env` does not count, as that file may come with a folder."""
MAX_CHARACTERS = 64
RULE = (
    f"a name has at most {MAX_CHARACTERS} characters: a-z, 0-9, `.`, `_`, `-`, `@` and `+`, and begins with a letter "
    "or a digit"
)
_NAME = re.compile(rf"[a-z0-9][a-z0-9._@+-]{{0,{MAX_CHARACTERS - 1}}}", re.ASCII)


def principal_id(name: str) -> PrincipalId:
    """The name, checked. Raises `ValueError` if it can't be the name of a principal; the message says why, and does not
    repeat it."""
    return PrincipalId(checked_name(name))


def checked_name(name: str) -> str:
    """The name of a principal or a group, checked; raises as `principal_id` does."""
    if _NAME.fullmatch(name) is None:
        in_lower_case = name.lower()
        if in_lower_case != name and _NAME.fullmatch(in_lower_case):
            raise ValueError(f"is not in lower case; write {in_lower_case!r}")
        raise ValueError(f"is no valid name: {RULE}")
    if ".." in name or name.endswith("."):
        raise ValueError("is no valid name: it ends with `.` or contains `..`")
    if name.partition(".")[0] in DEVICE_NAMES:
        raise ValueError("is no valid name: Windows has a device of that name")
    return name
