"""The results of one search as the model reads them and as programs get them.

What can be imported from one place stands together below one line that says how, the best place first. The further
down a result, the less is told of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.tree import tool_line
from codemode_server.search.documents import Findable
from codemode_server.search.question import SKILLS, DetailLevel
from codemode_server.search.signatures import brief_signature, result_fields

_ALSO_SHOWN = 5
_FIRST = 3
_SIGNATURE_CHARACTERS, _LATER_SIGNATURE_CHARACTERS = 160, 100
"""Of the first few results, and of those behind them, one of which is seldom the one."""


@dataclass(frozen=True, slots=True)
class Found:
    """One result."""

    thing: Findable
    unavailable: str
    """Empty, or why a call would fail."""
    detail_level: DetailLevel
    also: tuple[Tool, ...] = ()
    """The same of other servers."""
    usual: frozenset[str] = frozenset()
    """Parameters that most tools of its server have."""

    @property
    def place(self) -> str:
        """Where it is imported from."""
        return f"servers.{self.thing.server}" if isinstance(self.thing, Tool) else f"skills.{self.thing.name}"

    @property
    def name(self) -> str:
        """`github.create_issue`, `skills.weekly`."""
        server = self.thing.server if isinstance(self.thing, Tool) else SKILLS
        return f"{server}.{self.thing.name}"

    @property
    def said(self) -> str:
        return tool_line(self.thing) if isinstance(self.thing, Tool) else self.thing.summary

    def body(self, *, is_first: bool, told: set[str]) -> str:
        """What stands below the import line; a sentence that others share is told once."""
        signature = (
            _signature(self.thing, self.usual, is_first) if isinstance(self.thing, Tool) else self.thing.signature
        )
        said = "" if self.said in told else self.said
        told.add(said)
        lines = [f"  {signature}" if signature else "", f"    {said}" if said else "", self._also("    ")]
        return "\n".join(line for line in lines if line)

    @property
    def alone(self) -> str:
        """All of it, where it stands alone."""
        mark = f"  [{self.unavailable}]" if self.unavailable else ""
        if self.detail_level == "name_only":
            also = self._also(" (")
            return f"{self.name}{also}{')' if also else ''}{mark}"
        if isinstance(self.thing, Tool):
            source = self.thing.stub.source.rstrip("\n")
            return "\n".join(part for part in (f"# {self.thing.path}{mark}", self._also("# "), source) if part)
        body = self.body(is_first=True, told=set())
        return "\n".join(part for part in (f"# /skills/{self.thing.name}.py", self.thing.import_line, body) if part)

    def as_json(self) -> dict[str, Any]:
        """For programs that search for themselves."""
        thing = self.thing
        record: dict[str, Any] = {"server": thing.server if isinstance(thing, Tool) else SKILLS, "name": thing.name}
        if self.unavailable:
            record["unavailable"] = self.unavailable
        if self.detail_level != "name_only":
            signature = thing.stub.signature if isinstance(thing, Tool) else thing.signature
            record |= {"import": thing.import_line, "description": self.said, "signature": signature}
        if self.detail_level == "full" and isinstance(thing, Tool):
            record["source"] = thing.stub.source
        if self.also:
            record["also"] = [f"{tool.server}.{tool.name}" for tool in self.also]
        return record

    def _also(self, before: str) -> str:
        if not self.also:
            return ""
        names = ", ".join(f"{tool.server}.{tool.name}" for tool in self.also[:_ALSO_SHOWN])
        more = f" and {len(self.also) - _ALSO_SHOWN} more" if len(self.also) > _ALSO_SHOWN else ""
        return f"{before}also: {names}{more}"


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The answer to one `search_tools`."""

    results: tuple[Found, ...]
    """The best first."""
    note: str = ""
    """What to do next, where that is not plain; stands behind the results."""
    doubt: str = ""
    """What nothing fits well; stands before them."""

    @property
    def text(self) -> str:
        shown = _imports(self.results) if self._is_grouped else self._between.join(one.alone for one in self.results)
        return "\n".join(part for part in (self.doubt, shown, self.note) if part)

    @property
    def tools(self) -> list[Tool]:
        """The tools that are named."""
        return [tool for found in self.results for tool in (found.thing, *found.also) if isinstance(tool, Tool)]

    def as_json(self) -> list[dict[str, Any]]:
        return [found.as_json() for found in self.results]

    @property
    def _is_grouped(self) -> bool:
        return all(found.detail_level == "with_description" for found in self.results)

    @property
    def _between(self) -> str:
        return "\n" if all(found.detail_level == "name_only" for found in self.results) else "\n\n"


def _signature(tool: Tool, usual: frozenset[str], is_first: bool) -> str:
    if not is_first:
        return brief_signature(tool, usual, _LATER_SIGNATURE_CHARACTERS)
    fields = result_fields(tool)
    return brief_signature(tool, usual, _SIGNATURE_CHARACTERS) + (f"  # {fields}" if fields else "")


def _imports(results: Sequence[Found]) -> str:
    """Import lines, and below each what it imports."""
    places: dict[str, list[Found]] = {}
    for found in results:
        places.setdefault(found.place, []).append(found)
    first = set(map(id, results[:_FIRST]))
    told: set[str] = set()
    lines = []
    for place, some in places.items():
        mark = f"  [{some[0].unavailable}]" if some[0].unavailable else ""
        alone = some[0].thing.import_line if len(some) == 1 else f"from {place} import <name>"
        lines.append(f"{alone}{mark}")
        for found in some:
            lines.append(found.body(is_first=id(found) in first, told=told))
    return "\n".join(line for line in lines if line)
