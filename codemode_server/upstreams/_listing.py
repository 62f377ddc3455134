"""Converts a raw `tools/list` answer to tool definitions, one at a time: an invalid tool costs only itself."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from codemode_server.catalog.summaries import server_purpose
from codemode_server.domain.definitions import canonical_text, digest_of
from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.json_values import MAX_VALUES
from codemode_server.redaction import NO_SECRETS, Redactor
from codemode_server.text import clean, clean_line
from codemode_server.upstreams._link import Answer

MAX_PAGES = 200
MAX_TOOLS = 10_000
MAX_SCHEMA_CHARACTERS = 512 * 1024
"""Size limit of a tool's schema as JSON; the largest of 2,843 real ones has about 100,000."""
MAX_DESCRIPTION_CHARACTERS = 32 * 1024
MAX_NAME_CHARACTERS = 256
MAX_LISTING_CHARACTERS = 16 * 2**20
"""Size limit of all tools of a server together, as JSON. The largest real server has 2 MiB."""
MAX_CURSOR_CHARACTERS = 64 * 1024
_MAX_PROBLEMS = 100
_SERVER_DESCRIPTION_CHARACTERS = 200

Page = Callable[[str | None], Awaitable[Answer]]
"""Asks for the page at a cursor."""


@dataclass(frozen=True, slots=True)
class ToolsFound:
    """All callable tools of one server, and a line for each problem."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[str, ...]


class _Refused(Exception):
    """Raised for a tool that can't be used; the message says why."""


async def list_tools(
    page: Page, *, refuse_schema: Callable[[JsonSchema], str | None], redact: Callable[[Any], Any] = lambda value: value
) -> ToolsFound:
    """Ask for every page, and take from it the tools that fit. `refuse_schema` says what the negotiated protocol
    forbids in an input schema; `redact` gives a JSON value without the secrets of the configuration."""
    taken = _Taken(refuse_schema, redact)
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        cursor = await (await page(cursor)).read(taken.take)
        if cursor is None:
            return taken.found()
    taken.problems.append(f"tools/list: only the first {MAX_PAGES} pages are taken")
    return taken.found()


class _Taken:
    """The tools taken so far from one listing. Refused tools count towards its limits too, since they were read."""

    def __init__(self, refuse_schema: Callable[[JsonSchema], str | None], redact: Callable[[Any], Any]) -> None:
        self._refuse_schema = refuse_schema
        self._redact = redact
        self._tools: dict[str, ToolDefinition] = {}
        self._characters_left = MAX_LISTING_CHARACTERS
        self._values_left = MAX_VALUES
        self._cursors: set[str] = set()
        self.problems: list[str] = []

    def take(self, answer: dict[str, Any]) -> str | None:
        """Take a page; the cursor of the next one, if more can be taken."""
        listed = answer.get("tools")
        if not isinstance(listed, list):
            self.problems.append(f"tools/list: `tools` is no list but {_kind(listed)}")
            listed = []
        for position, raw in enumerate(listed):
            if (full := self._full()) is not None:
                self.problems.append(
                    f"tools/list: only {full} are taken; {len(listed) - position} or more are left out"
                )
                return None
            name = raw.get("name") if isinstance(raw, dict) else None
            try:
                self._take_tool(raw, name)
            except _Refused as refusal:
                which = repr(clean_line(self._redact(name), 80)) if isinstance(name, str) else f"number {position + 1}"
                self.problems.append(f"tool {which}: {refusal}")
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return None
        if cursor in self._cursors:
            self.problems.append("tools/list: the server's pages go round in a circle")
            return None
        if len(cursor) > MAX_CURSOR_CHARACTERS:
            self.problems.append(f"tools/list: a cursor is longer than {MAX_CURSOR_CHARACTERS} characters")
            return None
        self._cursors.add(cursor)
        return cursor

    def found(self) -> ToolsFound:
        problems = self.problems
        if len(problems) > _MAX_PROBLEMS:
            problems = [*problems[:_MAX_PROBLEMS], f"and {len(problems) - _MAX_PROBLEMS} more"]
        return ToolsFound(tuple(self._tools.values()), tuple(problems))

    def _full(self) -> str | None:
        """The limit that is reached, as a phrase; None while there is room."""
        if len(self._tools) >= MAX_TOOLS:
            return f"the first {MAX_TOOLS} tools"
        if self._characters_left <= 0:
            return f"the first {MAX_LISTING_CHARACTERS // 2**20} MiB of the tools"
        if self._values_left <= 0:
            return f"tools with {MAX_VALUES:,} values in their schemas"
        return None

    def _take_tool(self, raw: Any, name: Any) -> None:
        try:
            text = json.dumps(raw, ensure_ascii=False)
        except (RecursionError, ValueError, TypeError):
            raise _Refused("it is nested too deeply") from None
        self._characters_left -= len(text)
        self._values_left -= sum(map(text.count, ",:[{"))
        raw, name = _redacted(raw, name, self._redact)
        tool = _to_definition(raw, self._refuse_schema, self.problems)
        if tool.name in self._tools:
            raise _Refused("its name is listed twice; the first one is used")
        self._tools[tool.name] = tool


def effect_of(annotations: Any) -> Effect:
    """The effect that a tool's annotations claim. If they say that it writes and not whether it destroys, the
    specification's default applies, which is that it may. Other hints claim no effect."""
    if not isinstance(annotations, dict):
        return Effect.UNKNOWN
    reads, destroys = annotations.get("readOnlyHint"), annotations.get("destructiveHint")
    if reads is True:
        return Effect.READS
    if destroys is True:
        return Effect.DESTROYS
    if destroys is False:
        return Effect.WRITES
    return Effect.DESTROYS if reads is False else Effect.UNKNOWN


def _needs_task(raw: dict[str, Any]) -> bool:
    """True if the tool can only be called as a task (2025-11-25), which clients have to poll."""
    execution = raw.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


def describe_server(description: str | None, instructions: str | None, redactor: Redactor = NO_SECRETS) -> str:
    """A server's purpose in one line, masked: its own description, or else the fitting sentence of its instructions."""
    own, said = (redactor.visible(redactor.head(text or "", 20_000)) for text in (description, instructions))
    text = clean_line(own, 20_000) or server_purpose(said, _SERVER_DESCRIPTION_CHARACTERS)
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    return clean_line(first, _SERVER_DESCRIPTION_CHARACTERS)


def _redacted(raw: Any, name: Any, redact: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A tool and its name without secrets, as they may be shown and stored."""
    try:
        shown = redact(raw)
    except RecursionError:
        raise _Refused("it is nested too deeply") from None
    if isinstance(shown, dict) and shown.get("name") != name:
        raise _Refused("its name holds a secret of the configuration")
    return shown, name


def _to_definition(raw: Any, refuse_schema: Callable[[JsonSchema], str | None], problems: list[str]) -> ToolDefinition:
    if not isinstance(raw, dict):
        raise _Refused(f"it is no object but {_kind(raw)}")
    name = raw.get("name")
    if not isinstance(name, str) or not name or name != clean_line(name, MAX_NAME_CHARACTERS):
        raise _Refused("its name is missing, too long or has characters that can't be shown")
    schema = raw.get("inputSchema")
    if schema is None or (isinstance(schema, dict) and "type" not in schema):
        # Off schema, and plain all the same: what it would take is an object.
        problems.append(f'tool {name!r}: its inputSchema does not say `"type": "object"`; taken as if it did')
        schema = {"type": "object", **(schema or {})}
    if not isinstance(schema, dict) or schema["type"] != "object":
        said = f"has type {clean_line(repr(schema['type']), 40)}" if isinstance(schema, dict) else f"is {_kind(schema)}"
        raise _Refused(f"its inputSchema is no object's schema: it {said}")
    if not isinstance(schema.get("properties", {}), dict):
        raise _Refused("the `properties` of its inputSchema are no object")
    if (reason := refuse_schema(schema)) is not None:
        raise _Refused(clean_line(reason, 200))
    output = raw.get("outputSchema")
    if output is not None and not isinstance(output, dict):
        problems.append(f"tool {name!r}: its outputSchema is {_kind(output)}; taken as if there were none")
        output = None
    _check_size(schema, "inputSchema")
    if output is not None:
        _check_size(output, "outputSchema")
    annotations, title, description = raw.get("annotations"), raw.get("title"), raw.get("description")
    if not isinstance(title, str) and isinstance(annotations, dict):
        title = annotations.get("title")
    description = clean(description[:MAX_DESCRIPTION_CHARACTERS]) if isinstance(description, str) else ""
    tool = ToolDefinition(
        name=name,
        description=description,
        title=clean_line(title, 200) if isinstance(title, str) else None,
        input_schema=schema,
        output_schema=output,
        effect=effect_of(annotations),
        is_task=_needs_task(raw),
        is_closed_world=isinstance(annotations, dict) and annotations.get("openWorldHint") is False,
    )
    return replace(tool, digest=digest_of(canonical_text(tool)))


def _check_size(schema: JsonSchema, which: str) -> None:
    try:
        size = len(json.dumps(schema))
    except (RecursionError, ValueError, TypeError):
        raise _Refused(f"its {which} is nested too deeply") from None
    if size > MAX_SCHEMA_CHARACTERS:
        raise _Refused(f"its {which} is longer than {MAX_SCHEMA_CHARACTERS // 1024} KiB")


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
