"""The four meta-tools as the host lists them: names, texts, arguments, results. Every word costs every user tokens.

What does not depend on the user's servers stays, with the instructions, under 1,200 tokens with the default settings; a
test counts them. This module doesn't import the MCP library, since a host gets this list before that library is
imported.

Hosts show different parts of it. Some leave out the instructions, Qwen Code shows 150 characters of a description until
the tool is used, Claude Code cuts a description at 2 KB: so each first sentence says what the tool is for, and the
rules for programs are with the argument `code`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from codemode_server.front.example import Example
from codemode_server.front.listing import Listing
from codemode_server.settings import LimitSettings, Settings

NO_SERVERS = Listing()

_LOADED_AT_ONCE = {"anthropic/alwaysLoad": True}
"""Without this, Claude Code shows only the names of the tools and finds them by a search that knows no servers."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class ListDirArguments(_Arguments):
    path: str = "/"


class ReadToolArguments(_Arguments):
    path: str


class SearchToolsArguments(_Arguments):
    query: Annotated[str, Field(description="What the tool should do, in English; empty lists by name")]
    detail_level: Literal["name_only", "with_description", "full"] = "with_description"
    server: str | None = None
    effect: Literal["reads", "writes", "destroys"] | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 10


class ExecuteCodeArguments(_Arguments):
    code: Annotated[str, Field(min_length=1)]
    timeout: Annotated[float | None, Field(gt=0)] = None


_READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_TEXT_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
_LINES = {"type": "array", "items": {"type": "string"}}
_SEARCH_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {"tools": {"type": "array", "items": {"type": "object"}}, "note": {"type": "string"}},
    "required": ["tools"],
}
_EXECUTION_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["succeeded", "failed", "limit_exceeded", "cancelled", "sandbox_failed"]},
        "execution_id": {"type": "string"},
        "isolation": {"enum": ["microvm", "wasm"]},
        "value": {},
        "value_is_text": {"type": "boolean"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "error": {"type": "object"},
        "calls": {"type": "array", "items": {"type": "object"}},
        "unmarked_errors": _LINES,
        "cut": _LINES,
        "shown": _LINES,
        "hints": _LINES,
        "warnings": _LINES,
        "notes": _LINES,
    },
    "required": ["status", "execution_id", "calls"],
}

MAX_META_CHARACTERS = 500_000
"""The maximum that Claude Code lets a tool ask for: `limits` cut a long answer, and the host doesn't cut it again."""

ARGUMENTS: dict[str, type[_Arguments]] = {
    "list_dir": ListDirArguments,
    "read_tool": ReadToolArguments,
    "search_tools": SearchToolsArguments,
    "execute_code": ExecuteCodeArguments,
}


def definitions(settings: Settings, servers: Listing = NO_SERVERS) -> list[dict[str, Any]]:
    """The answer to `tools/list`: always these four tools, in this order."""
    named = f" ({servers.names})" if servers.names else ""
    tool = partial(_tool, has_output_schema=settings.results.structured_content)
    return [
        tool(
            "list_dir",
            "List a folder",
            "List the user's MCP servers (/servers), the tools of one (/servers/<server>), saved programs (/skills) or "
            "files that programs wrote (/workspace).",
            _READS,
            _TEXT_RESULT,
        ),
        tool(
            "read_tool",
            "Read tools",
            "Read the Python source of tools of the user's MCP servers, or of skills: signature, types, documentation. "
            "Only needed where search_tools shows too little.",
            _READS,
            _TEXT_RESULT,
            arguments={
                "path": {"description": f"e.g. {servers.example.path}; several separated by commas; :10-40 for lines"}
            },
        ),
        tool(
            "search_tools",
            "Search tools",
            f"Find tools of the user's MCP servers{named} by what they do, best first, with the line that imports each "
            "and its signature. Then call them in execute_code. Finds skills as well.",
            _READS,
            _SEARCH_RESULT,
        ),
        tool(
            "execute_code",
            "Run a Python program",
            _program_description(servers),
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
            _EXECUTION_RESULT,
            meta={"anthropic/maxResultSizeChars": MAX_META_CHARACTERS},
            arguments={
                "code": {"description": _program_rules(settings.limits, servers.example)},
                "timeout": {
                    "maximum": settings.limits.wall_seconds,
                    "description": "Maximum run time in seconds, excluding time spent waiting for servers",
                },
            },
        ),
    ]


def _program_description(servers: Listing) -> str:
    text = (
        "Run a Python 3 program that calls tools of the user's MCP servers; get back what it prints and the value of "
        "its last expression."
    )
    if not servers.tools:
        return text
    return (
        f"{text} Import tools as `from servers.<server> import <tool>`; search_tools finds those that are not listed "
        f"here:\n{servers.tools}"
    )


def _program_rules(limits: LimitSettings, example: Example) -> str:
    """The rules for programs in the description of `execute_code`, with the limits that are in force."""
    return f"""\
Call tools with keyword arguments; they return plain Python values, a failed call raises ToolError. `await` and \
asyncio.gather work; tool.map(items) calls for each, tool.pages(...) gives the items of all pages (more in \
servers/__init__.py).
Standard library only; no network, no host files. Each program starts fresh: only files in /workspace and results \
stay. At most {limits.calls:,} calls, {limits.memory_mb} MB, {limits.wall_seconds:g} s of run time plus \
{limits.upstream_seconds:g} s waiting for servers.
from codemode import show, results: show(file) lets you see an image or file; results["x…"] is what an earlier program \
returned, whole. Example:
{example.program}"""


def _tool(
    name: str,
    title: str,
    description: str,
    annotations: dict[str, bool],
    output_schema: dict[str, Any],
    *,
    has_output_schema: bool,
    meta: Mapping[str, Any] = {},
    arguments: Mapping[str, Mapping[str, Any]] = {},
) -> dict[str, Any]:
    """One tool as the protocol has it; `arguments` adds what depends on the settings to the schemas of arguments."""
    schema = _shortened(ARGUMENTS[name].model_json_schema())
    properties = {key: {**field, **arguments.get(key, {})} for key, field in schema["properties"].items()}
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema | {"properties": properties},
        **({"outputSchema": output_schema} if has_output_schema else {}),
        "annotations": annotations,
        "_meta": {**_LOADED_AT_ONCE, **meta},
    }


def _shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without titles, and without null for optional arguments; null is still accepted."""
    properties = {name: _property(field) for name, field in schema["properties"].items()}
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": properties}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in field.items() if key != "title"}
    match short:
        case {"anyOf": [dict(one), {"type": "null"}], "default": None}:
            return one | {key: value for key, value in short.items() if key not in ("anyOf", "default")}
    return short
