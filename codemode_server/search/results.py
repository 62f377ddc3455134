"""Formats search results: as text for the model, as JSON for programs.

Results of one module are grouped below one import line, the best module first. Results further down are shown in less
detail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import Parameter, branches_of
from codemode_server.catalog.resources import Resource
from codemode_server.catalog.tree import ASKS_FIRST, refusal_line, short_refusal, tool_line
from codemode_server.catalog.untrusted import one_line
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import Effect, Refusal
from codemode_server.search.documents import Findable
from codemode_server.search.signatures import brief_signature, parameter_classes, result_fields
from codemode_server.support.text import first_few

DetailLevel = Literal["name_only", "with_description", "full", "scaffold"]
_ALSO_SHOWN = 10
_REASON_CHARACTERS = 160
_UNSTATED = "(effect not stated)"
_NO_ARROW = "(without ->, the type of the result is not known)"
_WITHOUT_ARROW = re.compile(r"^  \w+\((?!.* -> )", re.MULTILINE)
_FIRST = 3
_SIGNATURE_CHARACTERS, _LATER_SIGNATURE_CHARACTERS = 130, 65
"""Length limits of signatures: of the first few results, and of the others, which are seldom the right ones."""
_MAX_SCAFFOLD_TOOLS = 3
_MAX_TASK_CHARACTERS = 120
_SUMMARY_CHARACTERS = 100
_MAX_ENUM_CHARACTERS = 40
_PLAIN_KEYS = frozenset({"type", "description", "title", "default", "examples", "enum", "additionalProperties"})
"""Keys of a schema under which a placeholder of its type is certainly valid."""
_PLACEHOLDERS = {"string": '"…"', "integer": "1", "number": "1.5", "boolean": "True", "object": "{}", "array": "[]"}
_FILL_IN = "fill_in"


@dataclass(frozen=True, slots=True)
class SearchResult:
    thing: Findable
    unavailable: str
    """Why a call would fail; empty if it can be called."""
    detail_level: DetailLevel
    also: tuple[Tool, ...] = ()
    is_effect_asked: bool = False
    """True if the search had an effect filter; tools that state no effect are then marked."""
    refusal: Refusal | None = None
    asks_first: bool = False

    @property
    def module(self) -> str:
        return f"servers.{self.thing.server}" if isinstance(self.thing, Tool) else self.thing.title

    @property
    def name(self) -> str:
        return f"{self.thing.server}.{self.thing.name}" if isinstance(self.thing, Tool) else self.thing.title

    @property
    def summary(self) -> str:
        return self._summary(short_refusal(self.refusal))

    def _summary(self, mark: str) -> str:
        if not isinstance(self.thing, Tool):
            return self.thing.note
        is_unstated = self.is_effect_asked and self.thing.effect is Effect.UNKNOWN
        line = tool_line(self.thing, mark, asks_first=self.asks_first)
        return f"{line} {_UNSTATED}".lstrip() if is_unstated else line

    def body(self, *, is_first: bool, already_shown: set[str]) -> str:
        """The lines below the import line, without what is in `already_shown`, to which it adds its own."""
        mark = short_refusal(self.refusal)
        reason = one_line(self.refusal.reason, _REASON_CHARACTERS) if self.refusal else ""
        if reason and reason not in already_shown:
            mark = f"{mark}: {reason}"
        summary = "" if self.summary in already_shown else self._summary(mark)
        already_shown |= {self.summary, reason}
        signature = self.thing.signature if isinstance(self.thing, Skill) else ""
        if isinstance(self.thing, Tool):
            signature = _signature(self.thing, is_first, already_shown)
        lines = [f"  {signature}" if signature else "", f"    {summary}" if summary else "", self._also("    ")]
        return "\n".join(line for line in lines if line)

    @property
    def alone(self) -> str:
        reason = self.unavailable or refusal_line(self.refusal) or (ASKS_FIRST if self.asks_first else "")
        mark = f"  [{reason}]" if reason else ""
        if self.detail_level == "name_only":
            also = self._also(" (")
            return f"{self.name}{also}{')' if also else ''}{mark}"
        if isinstance(self.thing, Tool):
            source = self.thing.stub.source.rstrip("\n")
            return "\n".join(part for part in (f"# {self.thing.path}{mark}", self._also("# "), source) if part)
        body = self.body(is_first=True, already_shown=set())
        return "\n".join(part for part in (f"# {self.thing.path}", self.thing.import_line, body) if part)

    def as_json(self) -> dict[str, Any]:
        thing = self.thing
        record: dict[str, Any] = {
            "server": thing.server if isinstance(thing, Tool) else thing.package,
            "name": thing.name,
        }
        if reason := self.unavailable or refusal_line(self.refusal):
            record["unavailable"] = reason
        if self.detail_level != "name_only":
            signature = _signature(thing, True, set()) if isinstance(thing, Tool) else thing.signature
            record |= {"import": thing.import_line, "description": self.summary, "signature": signature}
        if self.detail_level == "full" and isinstance(thing, Tool):
            record["source"] = thing.stub.source
        if self.also:
            record["also"] = [f"{tool.server}.{tool.name}" for tool in self.also]
        return record

    def _also(self, before: str) -> str:
        if not self.also:
            return ""
        return f"{before}also: {first_few([f'{tool.server}.{tool.name}' for tool in self.also], _ALSO_SHOWN)}"


@dataclass(frozen=True, slots=True)
class SearchResults:
    results: tuple[SearchResult, ...]
    note: str = ""
    """Next step, if it is not obvious; shown after the results."""
    doubt: str = ""
    """Shortcoming of the results: `nothing fits "…" exactly`. Shown before the results."""
    resources: tuple[tuple[Resource, Refusal | None], ...] = ()
    """Resources and templates that match as well, the best first, each with why reading it is refused."""
    task: str = ""

    def marked(self, asks_first: Callable[[Tool], bool]) -> SearchResults:
        results = (replace(it, asks_first=isinstance(it.thing, Tool) and asks_first(it.thing)) for it in self.results)
        return replace(self, results=tuple(results))

    @property
    def text(self) -> str:
        levels = {found.detail_level for found in self.results}
        if levels == {"scaffold"}:
            return "\n".join(part for part in (self.doubt, self.program, self.note) if part)
        if levels <= {"with_description"}:
            shown = _grouped(self.results)
        else:
            shown = ("\n" if levels == {"name_only"} else "\n\n").join(found.alone for found in self.results)
        data = (
            "\n".join(["resources:", *(f"  {resource_line(*it)}" for it in self.resources)]) if self.resources else ""
        )
        # What fits comes first: where no tool does, the resources.
        parts = (data, self.doubt, shown) if self.doubt else (shown, data)
        return "\n".join(part for part in (*parts, self.note) if part)

    @property
    def tools(self) -> list[Tool]:
        """All tools in the results, with equivalent tools of other servers."""
        return [tool for found in self.results for tool in (found.thing, *found.also) if isinstance(tool, Tool)]

    @property
    def program(self) -> str:
        """A program to start from, with the best tools that can be called; empty without any."""
        callable_ones = [it for it in self.results if not it.unavailable and it.refusal is None]
        return scaffold(self.task, [it.thing for it in callable_ones if isinstance(it.thing, Tool)])

    def as_json(self) -> list[dict[str, Any]]:
        if self.results and all(found.detail_level == "scaffold" for found in self.results):
            return [{**found.as_json(), "program": self.program} for found in self.results]
        return [*(found.as_json() for found in self.results), *(resource_json(*it) for it in self.resources)]


def _signature(tool: Tool, is_first: bool, already_shown: set[str]) -> str:
    """The signature in one line, without `->` where nothing is known of the result. For the first results with the
    fields of classes not in `already_shown`, for the others with a single result key, which is as short as its class
    name."""
    keys = result_fields(tool)
    if not is_first:
        is_one = bool(keys) and not re.search("[,;]", keys)
        return brief_signature(tool, _LATER_SIGNATURE_CHARACTERS) + (f"  # {keys}" if is_one else "")
    signature = brief_signature(tool, _SIGNATURE_CHARACTERS, is_first=True)
    classes, is_any = parameter_classes(tool, signature), str(tool.returned.type) == "Any"
    remark = tool.returned.known_beside_type if is_any else tool.returned.remark
    if remark and is_any:
        signature += " -> Any"
    notes = [
        note
        for note in (*classes, remark, keys, _files_note(tool))
        if note and f"{tool.server}.{note}" not in already_shown
    ]
    already_shown.update(f"{tool.server}.{note}" for note in classes)
    return f"{signature}  # {'; '.join(notes)}" if notes else signature


def _files_note(tool: Tool) -> str:
    """How a program shows the image or file that the tool gives, as its results or its output schema tell."""
    if re.search(r"\bFile\b", str(tool.returned.type)):
        return "an image or file: show(it) lets you see it"
    return (
        "files are in .files: show(result.files[0]), .files[0].data"
        if '"image"' in json.dumps(tool.definition.output_schema)
        else ""
    )


def _grouped(results: Sequence[SearchResult]) -> str:
    modules: dict[str, list[tuple[bool, SearchResult]]] = {}
    for number, found in enumerate(results):
        modules.setdefault(found.module, []).append((number < _FIRST, found))
    already_shown: set[str] = set()
    lines = []
    for module, some in modules.items():
        first = some[0][1]
        mark = f"  [{first.unavailable}]" if first.unavailable else ""
        lines.append(f"{first.thing.import_line if len(some) == 1 else f'from {module} import <name>'}{mark}")
        lines += [found.body(is_first=is_first, already_shown=already_shown) for is_first, found in some]
    text = "\n".join(line for line in lines if line)
    return f"{text}\n{_NO_ARROW}" if _WITHOUT_ARROW.search(text) else text


def resource_line(resource: Resource, refusal: Refusal | None) -> str:
    mark = f"  [{refusal_line(refusal)}]" if refusal else ""
    return f"{resource.import_line}; {resource.read_line}.text  # {resource.summary}{mark}"


def resource_json(resource: Resource, refusal: Refusal | None) -> dict[str, Any]:
    return ({"unavailable": refusal_line(refusal)} if refusal else {}) | {
        "server": resource.server,
        "name": resource.name,
        "kind": "template" if resource.is_template else "resource",
        "path": resource.path,
        "import": resource.import_line,
        "description": resource.summary,
        "signature": resource.read_line,
    }


def scaffold(task: str, tools: Sequence[Tool]) -> str:
    """A starting program for a task: the import lines of the tools that were found for it, and a call of each. Its
    arguments are placeholders that the schemas allow, so it passes the check of programs. Empty without tools."""
    chosen = tools[:_MAX_SCAFFOLD_TOOLS]
    if not chosen:
        return ""
    plain = [tool.name for tool in chosen]
    arguments = [_arguments(tool) for tool in chosen]
    imports = []
    calls = []
    for number, (tool, given) in enumerate(zip(chosen, arguments, strict=True), start=1):
        is_unique = plain.count(tool.name) == 1
        name = tool.name if is_unique else f"{tool.server}_{tool.name}"
        imports.append(tool.import_line if is_unique else f"{tool.import_line} as {name}")
        summary = one_line(tool.summary, _SUMMARY_CHARACTERS)
        calls += ["", f"# {tool.path}: {summary}".rstrip(": "), f"result_{number} = {name}({given})"]
        calls.append(f"print(result_{number})")
    if any(_FILL_IN in given for given in arguments):
        note = "replace by a value of the type in the signature, which read_tool shows"
        imports += ["import json", f'{_FILL_IN} = json.loads("null")  # {note}']
    head = f"# Task: {one_line(task, _MAX_TASK_CHARACTERS)}" if task else "# A starting program"
    return "\n".join([head, "# Replace the placeholders, and keep the calls that the task needs.", *imports, *calls])


def _arguments(tool: Tool) -> str:
    schema = tool.definition.input_schema
    if isinstance(schema, dict) and (branches_of(schema) or {"allOf", "if", "not"} & schema.keys()):
        return _FILL_IN  # what must be given together is not known
    return ", ".join(f"{one.name}={_placeholder(one)}" for one in tool.parameters if one.is_required)


def _placeholder(parameter: Parameter) -> str:
    schema: dict[str, Any] = parameter.schema if isinstance(parameter.schema, dict) else {}
    if not schema.keys() <= _PLAIN_KEYS:
        return _FILL_IN
    allowed = schema.get("enum")
    if isinstance(allowed, list):
        first = allowed[0] if allowed else None
        fits = isinstance(first, str) and first.isascii() and first.isprintable() and len(first) < _MAX_ENUM_CHARACTERS
        return json.dumps(first) if fits else _FILL_IN
    return _PLACEHOLDERS.get(str(schema.get("type")), _FILL_IN)
