"""The example program in the description of `execute_code`, made of a tool that the user has.

An example with a tool that does not exist gets copied, and fails. A tool that gives a list is chosen if possible, so
that the example can show how to return a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import kinds_of
from codemode_server.catalog.parameters import Parameter
from codemode_server.domain.tools import Effect

_MAX_CANDIDATES = 40
"""Tools looked at: each needs its stub, and the host waits."""
_MAX_REQUIRED = 3
_MAX_CHARACTERS = 150
_PLACEHOLDERS = {"string": '"…"', "integer": "1", "number": "1.5", "boolean": "True"}


@dataclass(frozen=True, slots=True)
class Example:
    """One tool for the texts."""

    path: str
    """For `read_tool`: `servers/git/git_log.py`."""
    program: str


INVENTED = Example(
    "servers/github/create_issue.py",
    'from servers.github import list_issues\nissues = list_issues(repo="a/b", state="open")\n'
    '{"open": len(issues), "bugs": [i["title"] for i in issues if "bug" in i["labels"]][:5]}',
)
"""Used if no tool of the user fits."""


def example_of(tools: Iterable[Tool]) -> Example:
    """An example with the tool that shows most; among equals the first. Only tools that declare to read are used."""
    fitting = [tool for tool in islice(tools, _MAX_CANDIDATES) if tool.effect is Effect.READS and _call(tool)]
    if not fitting:
        return INVENTED
    chosen = max(fitting, key=lambda tool: (_gives_list(tool), "=" in _call(tool)))
    last = '{"count": len(found), "first": found[:3]}' if _gives_list(chosen) else "str(found)[:500]"
    program = f"{chosen.import_line}\nfound = {_call(chosen)}\n{last}"
    return Example(chosen.path.removeprefix("/"), program)


def _gives_list(tool: Tool) -> bool:
    return str(tool.returned.type).startswith("list[")


def _call(tool: Tool) -> str:
    """The call with its required arguments; empty if one of them is no plain value, or if it is long."""
    required = [parameter for parameter in tool.parameters if parameter.is_required]
    values = [_placeholder(parameter) for parameter in required]
    arguments = ", ".join(f"{parameter.name}={value}" for parameter, value in zip(required, values, strict=True))
    text = f"{tool.name}({arguments})"
    return text if all(values) and len(required) <= _MAX_REQUIRED and len(text) <= _MAX_CHARACTERS else ""


def _placeholder(parameter: Parameter) -> str:
    schema = parameter.schema if isinstance(parameter.schema, dict) else {}
    kinds = kinds_of(schema)
    return _PLACEHOLDERS.get(kinds[0], "") if len(kinds) == 1 and "enum" not in schema else ""
