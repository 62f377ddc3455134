"""The results of one search as the model reads them and as programs get them.

What can be imported from one place stands together below one line that says how, the best place first. The further
down a result, the less is told of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.tree import tool_line
from codemode_server.domain.tools import Effect
from codemode_server.search.documents import Findable
from codemode_server.search.question import SKILLS, DetailLevel
from codemode_server.search.signatures import brief_signature, is_complete, parameter_classes, result_fields

_ALSO_SHOWN = 5
_UNSTATED = "(effect not stated)"
_FIRST = 3
_SIGNATURE_CHARACTERS, _LATER_SIGNATURE_CHARACTERS = 130, 65
"""Length limits of signatures: of the first few results, and of the others, which are seldom the right ones."""


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
    is_effect_asked: bool = False
    """Whether the search was for tools of some effect, so that one that states none is shown as such."""

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
    def _refusal(self) -> str:
        return self.thing.definition.refusal if isinstance(self.thing, Tool) else ""

    @property
    def said(self) -> str:
        if not isinstance(self.thing, Tool):
            return self.thing.summary
        is_unstated = self.is_effect_asked and self.thing.effect is Effect.UNKNOWN
        return f"{tool_line(self.thing)} {_UNSTATED}".lstrip() if is_unstated else tool_line(self.thing)

    def body(self, *, is_first: bool, told: set[str]) -> str:
        """What stands below the import line, without the sentences and classes in `told`, which it adds its own to."""
        said = "" if self.said in told else self.said
        told.add(said)
        signature = (
            _signature(self.thing, self.usual, self.said, is_first, told)
            if isinstance(self.thing, Tool)
            else self.thing.signature
        )
        lines = [f"  {signature}" if signature else "", f"    {said}" if said else "", self._also("    ")]
        return "\n".join(line for line in lines if line)

    @property
    def alone(self) -> str:
        """All of it, where it stands alone."""
        reason = self.unavailable or self._refusal
        mark = f"  [{reason}]" if reason else ""
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
        if reason := self.unavailable or self._refusal:
            record["unavailable"] = reason
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
    """What the results do not do: `nothing fits "…" well`, or words that none of them mentions. Stands before them."""

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


def _signature(tool: Tool, usual: frozenset[str], said: str, is_first: bool, told: set[str]) -> str:
    """One line; of the first results with the fields of classes that are not in `told`, and whether `read_tool` has
    more to say. Of the others a key that is the only one, which costs no more than the name of its class."""
    if not is_first:
        keys = result_fields(tool)
        is_one = bool(keys) and not re.search("[,;]", keys)
        return brief_signature(tool, usual, _LATER_SIGNATURE_CHARACTERS) + (f"  # {keys}" if is_one else "")
    signature = brief_signature(tool, usual, _SIGNATURE_CHARACTERS, is_first=True)
    classes, remark = parameter_classes(tool, signature), tool.returned.remark
    if remark and str(tool.returned.type) == "Any":
        signature += " -> Any"
    notes = [*classes, remark, result_fields(tool)]
    is_whole = not tool.returned.awaits_first_call and is_complete(tool, f"{signature} {' '.join(notes)} {said}")
    notes = [note for note in notes if f"{tool.server}.{note}" not in told]
    told.update(f"{tool.server}.{note}" for note in classes)
    comment = "; ".join(note for note in (*notes, "full signature" if is_whole else "") if note)
    return f"{signature}  # {comment}" if comment else signature


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
