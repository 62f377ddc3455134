"""A program to start from: what it has, and that the check of programs passes it, for every tool of real servers."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition
from codemode_server.search.results import scaffold
from tests.executions.kit import lines, listing, preflight, real_catalog

TEXT = {"type": "string"}
GITHUB = {"repo": TEXT, "state": TEXT | {"enum": ["open", "closed"]}, "page": {}}
TRACKER = {"since": TEXT | {"format": "date"}}


def issues(description: str, properties: dict[str, Any], *required: str) -> ToolDefinition:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition("list_issues", description, input_schema=schema)


CATALOG = Catalog.build(
    [
        listing("github", issues("List issues.", GITHUB, "repo", "state")),
        listing("tracker", issues("List them.", TRACKER, "since")),
    ]
)


def test_it_has_the_imports_and_a_call_of_each_tool() -> None:
    tools = [tool for server in CATALOG.servers for tool in server.tools]
    assert scaffold("count issues\nof all", tools) == (
        "# Task: count issues of all\n"
        "# Replace the placeholders, and keep the calls that the task needs.\n"
        "from servers.github import list_issues as github_list_issues\n"
        "from servers.tracker import list_issues as tracker_list_issues\n"
        "import json\n"
        'fill_in = json.loads("null")  # replace by a value of the type in the signature, which read_tool shows\n\n'
        "# /servers/github/list_issues.py: List issues.\n"
        'result_1 = github_list_issues(repo="…", state="open")\nprint(result_1)\n\n'
        "# /servers/tracker/list_issues.py: List them.\n"
        "result_2 = tracker_list_issues(since=fill_in)\nprint(result_2)"
    )


@pytest.mark.slow
async def test_that_of_each_tool_of_real_servers_passes_the_check() -> None:
    catalog = real_catalog()
    wrong = []
    async with preflight(catalog) as check:
        for server in catalog.servers:
            for first in range(0, len(server.tools), 3):
                program = scaffold(f"use {server.name}", server.tools[first : first + 3])
                wrong += [f"{server.name}: {line}" for line in lines((await check.check(program)).errors)]
        broken = scaffold("", CATALOG.server("github").tools).replace("state=", "stat=")
        control = lines((await check.check(broken)).errors)
    assert wrong == []
    assert control
