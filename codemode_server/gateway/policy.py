"""What the permissions say about one call; pure.

The first rule that matches decides, else the default. A rule is matched against the names as the upstream has them
and as Python has them, so neither spelling slips past a `deny`. `ask` needs a person, who can't be asked yet: it
refuses, and says so.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from codemode_server.settings import PermissionRule, PermissionSettings


@dataclass(frozen=True, slots=True)
class Names:
    """A server or a tool under the two names it has."""

    raw: str
    python: str
    alone: str = ""
    """The Python name that it would have, and perhaps had, if there were no other like it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one call; never without its reason."""

    answer: Literal["allow", "deny", "ask"]
    reason: str

    @property
    def lets_through(self) -> bool:
        return self.answer == "allow"


def judge(permissions: PermissionSettings, server: Names, tool: Names) -> Verdict:
    """The verdict on a call of `tool` on `server`."""
    for number, rule in enumerate(permissions.rules, start=1):
        if _matches(rule, server, tool):
            return Verdict(rule.answer, _reason(rule, number))
    return Verdict(permissions.default, f"permissions.default is {permissions.default!r}")


def _matches(rule: PermissionRule, server: Names, tool: Names) -> bool:
    server_glob, _, tool_glob = rule.pattern.partition("/")
    # An upstream that adds `a_b` takes that name from `a-b`; a `deny` that was written for it still holds.
    is_wide = rule.answer != "allow"
    return _fits(server, server_glob, is_wide=is_wide) and _fits(tool, tool_glob or "*", is_wide=is_wide)


def _fits(names: Names, glob: str, *, is_wide: bool) -> bool:
    """A name that looks like a glob, `get[1]`, is meant by itself; letters with marks are the same in either form."""
    return any(
        spelling == glob or fnmatchcase(spelling, _composed(glob))
        for name in (names.raw, names.python, *([names.alone] if is_wide and names.alone else []))
        for spelling in (name, _composed(name))
    )


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _reason(rule: PermissionRule, number: int) -> str:
    said = f"rule {number} of permissions.rules ({rule.answer}: {rule.pattern})"
    return f"{said}: {rule.reason}" if rule.reason else said
