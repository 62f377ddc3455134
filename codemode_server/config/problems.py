"""Collects the problems of a configuration file with their lines, to report all at once. They contain names, never
values of variables, `env`, `headers`, `args` or `url`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.support.text import escaped

_MAX_SHOWN = 50
_MAX_NAME = 80


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    line: int
    """From 1; 0 stands for the file as a whole."""
    where: str
    """The key, as a person would name it: `servers.github.command`; may be empty."""
    message: str


@dataclass(slots=True)
class Problems:
    name: str
    found: list[Problem] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)
    """Where each server's entry is, with the server's name."""

    def add(self, line: int, where: str, message: str) -> None:
        self.found.append(Problem(line, where, message))

    @property
    def is_outside_servers(self) -> bool:
        """True if a problem is outside the entries of servers, so that the file can't be used at all."""
        return any(self._server(problem) is None for problem in self.found)

    def by_server(self) -> dict[str, tuple[str, ...]]:
        """The servers whose entries can't be used, each with what is wrong, in the order of the file."""
        grouped: dict[str, tuple[str, ...]] = {}
        for problem in sorted(set(self.found)):
            if (server := self._server(problem)) is not None:
                grouped[server] = (*grouped.get(server, ()), self._line(problem))
        return grouped

    def _server(self, problem: Problem) -> str | None:
        starts = ((f"{where}.", f"{where}[", name) for where, name in self.entries.items())
        return next((name for *start, name in starts if f"{problem.where}.".startswith(tuple(start))), None)

    def error(self) -> SettingsError:
        """One error that names all of them, in the order of the file."""
        unique = sorted(set(self.found))
        lines = [self._line(problem) for problem in unique[:_MAX_SHOWN]]
        if len(unique) > _MAX_SHOWN:
            lines.append(f"{self.name}: and {len(unique) - _MAX_SHOWN} more problems")
        return SettingsError("\n".join(lines))

    def _line(self, problem: Problem) -> str:
        place = f"{self.name}:{problem.line}" if problem.line else self.name
        return escaped(": ".join(part for part in (place, problem.where, problem.message) if part))


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    for folded, candidate in by_folded.items():
        if len(name) > 2 and folded.startswith(f"{name.casefold()}_"):  # `memory` for `memory_mb`
            return candidate
    matches = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def no_server(name: str, known: Iterable[str], place: str = "", *, others: str = "there are") -> CodemodeError:
    """The error for the name of a server that `place` doesn't have, with the one that was probably meant."""
    names = list(known)
    meant = nearest(name, names)
    hint = f"did you mean {printable(meant)!r}?" if meant else f"{others} {', '.join(map(printable, names)) or 'none'}"
    return CodemodeError(f"there is no server {printable(name)!r}{place and f' in {place}'}; {hint}")


def joined(where: str, member: str | int) -> str:
    """`where` extended by a member: `servers.github`, `args[0]`, `servers."a.b"`. Rules are counted from 1, as in the
    reasons of decisions: `permissions.rules[rule 1]`."""
    if isinstance(member, int):
        return f"{where}[rule {member + 1}]" if where.endswith(".rules") else f"{where}[{member}]"
    step = member if re.fullmatch(r"[\w-]+", member) else f'"{printable(member)}"'
    return f"{where}.{step}" if where else step


def printable(name: str, limit: int = _MAX_NAME) -> str:
    """A name from the file made safe for a terminal: one bounded line without control characters."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= limit else shown[:limit] + "…"
