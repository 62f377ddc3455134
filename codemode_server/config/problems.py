"""What is wrong with a configuration file: collected with the lines it stands on, told all at once.

No problem holds a value that came out of a variable, nor any value of `env`, `headers`, `args` or `url`: names only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from codemode_server.errors import SettingsError

_MAX_SHOWN = 50
_MAX_NAME = 80


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to put right."""

    line: int
    """From 1; 0 stands for the file as a whole."""
    where: str
    """The key, as a person would name it: `servers.github.command`; may be empty."""
    message: str


@dataclass(slots=True)
class Problems:
    """The problems of one file so far."""

    name: str
    """The file as messages call it."""
    found: list[Problem] = field(default_factory=list)

    def add(self, line: int, where: str, message: str) -> None:
        self.found.append(Problem(line, where, message))

    def raise_if_any(self) -> None:
        """Raise one error that tells all of them, in the order of the file."""
        if self.found:
            raise self.error()

    def error(self) -> SettingsError:
        unique = sorted(set(self.found))
        lines = [self._told(problem) for problem in unique[:_MAX_SHOWN]]
        if len(unique) > _MAX_SHOWN:
            lines.append(f"{self.name}: and {len(unique) - _MAX_SHOWN} more problems")
        return SettingsError("\n".join(lines))

    def _told(self, problem: Problem) -> str:
        place = f"{self.name}:{problem.line}" if problem.line else self.name
        return ": ".join(part for part in (place, problem.where, problem.message) if part)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that `name` was probably meant to be."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    for folded, candidate in by_folded.items():
        if len(name) > 2 and folded.startswith(f"{name.casefold()}_"):  # `memory` for `memory_mb`
            return candidate
    matches = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def joined(where: str, member: str | int) -> str:
    """`where` with one step more: `servers.github`, `args[0]`, `servers."a.b"`."""
    if isinstance(member, int):
        return f"{where}[{member}]"
    step = member if re.fullmatch(r"[\w-]+", member) else f'"{printable(member)}"'
    return f"{where}.{step}" if where else step


def printable(name: str) -> str:
    """A name out of the file, fit for a terminal: one line, no control characters, not endless."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= _MAX_NAME else shown[:_MAX_NAME] + "…"
