"""The names under which permission rules can mean a server, a tool, a resource or a prompt.

A rule is matched against the names as the upstream has them and as Python has them, so neither spelling slips past a
`deny`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.catalog.resources import MODULE, Resource

READ_RESOURCE = "read_resource"
"""The name of reading any resource in `permissions.rules`."""
READ_METHOD = "resources/read"
"""Its name in records: the protocol's method."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """The names under which a rule can mean a server or a tool."""

    raw: str
    python: str
    without_suffix: str = ""
    """The Python name that it would have, and perhaps had, if there were no other like it."""
    also: tuple[str, ...] = ()
    """More names, for rules of any kind."""
    to_refuse: tuple[str, ...] = ()
    """More names, for rules that do not allow."""
    unknown_below: str = ""
    """For rules that do not allow: it may have any name that begins so, since it has too many to find them all."""

    @classmethod
    def of_server(cls, server: Server) -> Spellings:
        return cls(server.raw_name, server.name, name_alone(server.raw_name, Kind.SERVER))

    @classmethod
    def of_tool(cls, tool: Tool) -> Spellings:
        return cls(tool.raw_name, tool.name, name_alone(tool.raw_name, Kind.TOOL))

    @classmethod
    def of_prompt(cls, name: str) -> Spellings:
        """As reports and records name it too."""
        return cls(f"prompts/{name}", f"prompts/{name}")

    @classmethod
    def of_resource(cls, resource: Resource) -> Spellings:
        """As it is listed. Reading it also regards the templates whose expansion its URI may be (`calls/targets.py`),
        which takes too long for a list."""
        return cls(READ_METHOD, READ_RESOURCE, also=resource_names(resource.uri, resource))


def resource_names(uri: str, *resources: Resource) -> tuple[str, ...]:
    """The names of a URI, and of what it may be, in `permissions.rules`."""
    names = {uri, *(name for it in resources for name in (it.name, it.uri, it.definition.name))}
    return tuple(f"{MODULE}/{name}" for name in sorted(names) if name)


@lru_cache(8192)
def fits(names: Spellings, glob: str, *, is_wide: bool) -> bool:
    """True if the glob matches one of the names; `is_wide` for rules that do not allow. A name that looks like a glob,
    `get[1]`, is meant by itself; letters with marks are the same in either form."""
    if glob == "*" or (is_wide and names.unknown_below and _may_begin(glob, names.unknown_below)):
        return True
    return any(
        spelling == glob or fnmatchcase(spelling, _composed(glob))
        for name in (
            *(names.raw, names.python, *names.also),
            *([names.without_suffix] if is_wide and names.without_suffix else []),
            *(names.to_refuse if is_wide else ()),
        )
        for spelling in (name, _composed(name))
    )


def _may_begin(glob: str, start: str) -> bool:
    fixed = re.split(r"[*?[]", glob, maxsplit=1)[0]
    return fixed.startswith(start) or (fixed != glob and start.startswith(fixed))


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)
