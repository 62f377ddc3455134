"""The four meta-tools as the host lists them: names, texts, arguments, results. Every word costs every user tokens.

All of it, with the instructions, stays under 1,200 tokens; a test counts them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.types import Tool as McpTool
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

INSTRUCTIONS = """\
Stands in for many MCP servers: their tools are Python functions in servers/<server>/<tool>.py.
1. Find tools: search_tools, or list_dir.
2. read_tool the few you need.
3. Write ONE Python program for execute_code that calls them, filters and combines, and ends with a small summary. \
Only that comes back; everything else stays in the sandbox."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class ListDirArguments(_Arguments):
    path: str = "/"


class ReadToolArguments(_Arguments):
    path: Annotated[
        str, Field(description="e.g. servers/github/create_issue.py; several separated by commas; :10-40 for lines")
    ]


class SearchToolsArguments(_Arguments):
    query: Annotated[str, Field(description="What the tool should do; empty lists all")]
    detail_level: Literal["name_only", "with_description", "full"] = "with_description"
    server: str | None = None
    effect: Literal["reads", "writes", "destroys"] | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 10


class ExecuteCodeArguments(_Arguments):
    code: Annotated[str, Field(min_length=1)]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds of its own time, below the configured limit")] = (
        None
    )


_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_TEXT_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
_LINES = {"type": "array", "items": {"type": "string"}}
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
        "cut": _LINES,
        "shown": _LINES,
        "hints": _LINES,
        "warnings": _LINES,
        "notes": _LINES,
    },
    "required": ["status", "execution_id", "calls"],
}

MOST_META_CHARACTERS = 500_000
"""As much as Claude Code lets a tool ask for: what is too long is cut here, as `limits` say, not once more there."""

ARGUMENTS: dict[str, type[_Arguments]] = {
    "list_dir": ListDirArguments,
    "read_tool": ReadToolArguments,
    "search_tools": SearchToolsArguments,
    "execute_code": ExecuteCodeArguments,
}


def definitions() -> list[McpTool]:
    """What `tools/list` answers, always the same and in this order."""
    return [
        _tool(
            "list_dir",
            "List a folder",
            "List /servers (the servers), /servers/<server> (its tools), /skills or /workspace.",
            _READS,
            _TEXT_RESULT,
        ),
        _tool(
            "read_tool",
            "Read tools",
            "Read the source of tools or skills: signature, types, documentation. Read a tool before you call it.",
            _READS,
            _TEXT_RESULT,
        ),
        _tool(
            "search_tools",
            "Search tools",
            "Find tools and skills by what they do, best first, with the line that imports each.",
            _READS,
            {
                "type": "object",
                "properties": {"tools": {"type": "array", "items": {"type": "object"}}, "note": {"type": "string"}},
                "required": ["tools"],
            },
        ),
        _tool(
            "execute_code",
            "Run a Python program",
            """\
Run a Python 3 program in a sandbox without network or host files, and get back what it prints and the value of its \
last expression. Calls take keyword arguments and give plain values; a failed call raises ToolError. `await` and \
asyncio.gather work; tool.map(items) calls for each, tool.pages(...) gives the items of all pages (more in \
servers/__init__.py). /workspace keeps files between runs. from codemode import show, results: show(file) lets you \
see an image or file; results["x…"] is what an earlier run returned, whole. Example:
from servers.github import list_issues
issues = list_issues(repo="a/b", state="open")
{"open": len(issues), "bugs": [i["title"] for i in issues if "bug" in i["labels"]][:5]}""",
            ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True),
            _EXECUTION_RESULT,
            meta={"anthropic/maxResultSizeChars": MOST_META_CHARACTERS},
        ),
    ]


def _tool(
    name: str,
    title: str,
    description: str,
    annotations: ToolAnnotations,
    output_schema: dict[str, Any],
    meta: dict[str, Any] | None = None,
) -> McpTool:
    return McpTool(
        name=name,
        title=title,
        description=description,
        input_schema=_shortened(ARGUMENTS[name].model_json_schema()),
        output_schema=output_schema,
        annotations=annotations,
        _meta=meta,
    )


def _shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without titles, and without null for what may as well be left out; null is accepted all the same."""
    properties = {name: _property(field) for name, field in schema["properties"].items()}
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": properties}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in field.items() if key != "title"}
    match short:
        case {"anyOf": [dict(one), {"type": "null"}], "default": None}:
            return one | {key: value for key, value in short.items() if key not in ("anyOf", "default")}
    return short
