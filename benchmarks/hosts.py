"""The tokens of our answers that reach a model, by what its host shows it of a result.

Some hosts show the text alone (opencode, Gemini CLI, Zed), some the structured content in its place where there is any
(Claude Code, Codex, VS Code), some both (Copilot CLI, Qwen Code, Cline). Measured on ten usual answers, with
`results.structured_content` off, as it is by default, and on. What hosts wrap around an answer is not counted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.types import CallToolResult

from codemode_server.app import App
from codemode_server.config import load

OFFICE = Path(__file__).parent.parent / "tests" / "example_servers" / "office.py"
ISSUES = "from servers.github import list_issues\nissues = list_issues(repo='shop')\n"
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "search_tools, all that fits": ("search_tools", {"query": "create an issue and post a message to a channel"}),
    "list_dir of a server": ("list_dir", {"path": "/servers/github"}),
    "read_tool of two tools": ("read_tool", {"path": "servers/github/list_issues.py, servers/github/create_issue.py"}),
    "program with a value": ("execute_code", {"code": ISSUES + "[issue['title'] for issue in issues]"}),
    "program with output": ("execute_code", {"code": ISSUES + "for issue in issues: print(issue['title'])"}),
    "program refused by the check": ("execute_code", {"code": ISSUES.replace("repo=", "repp=")}),
    "program that failed": ("execute_code", {"code": ISSUES + "print(len(issues))\nissues[0]['titel'].upper() + {}"}),
    "syntax error": ("execute_code", {"code": ISSUES + "print(issues"}),
    "program that ended with None": ("execute_code", {"code": ISSUES}),
    "value of 2,000 rows, cut": (
        "execute_code",
        {"code": "[{'id': n, 'name': f'row {n}', 'is_open': n % 3 > 0, 'tags': ['a', 'b']} for n in range(2_000)]"},
    ),
}


@dataclass(frozen=True)
class Cost:
    """Tokens of one answer that reach the model."""

    what: str
    text: int
    """With structured content off, in every host; and on, in hosts that show the text alone."""
    structured: int
    """With structured content on, in hosts that show it in place of the text."""
    both: int
    """With structured content on, in hosts that show both."""


async def costs(tokens: Callable[[str], int]) -> list[Cost]:
    """Of each answer; the product is run with structured content on, and with it off as a control."""
    on, off = [await _answers(has_structured) for has_structured in (True, False)]
    found = []
    for what, plain, full in zip(ANSWERS, off, on, strict=True):
        assert plain.structured_content is None, what
        text, structured = tokens(_text(plain)), full.structured_content
        # A refusal of our own, for instance of an argument, has no structure.
        as_json = tokens(json.dumps(structured, ensure_ascii=False, separators=(",", ":"))) if structured else text
        found.append(Cost(what, text, as_json, text + as_json if structured else text))
    return found


async def _answers(has_structured: bool) -> list[CallToolResult]:
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            name: {"command": sys.executable, "args": [str(OFFICE), name], "env": {"OFFICE_LOG": f"{folder}/log"}}
            for name in ("google_drive", "salesforce", "slack", "github")
        }
        config = Path(folder) / "upstream.yaml"
        config.write_text(
            json.dumps(
                {
                    "servers": servers,
                    "state": {"dir": f"{folder}/state"},
                    "search": {"ranker": "lexical"},
                    "results": {"structured_content": has_structured},
                }
            )
        )
        async with App.open(load(config)) as app, Client(app.front) as client:
            await client.list_tools()
            await app.pool.wait_settled(30)
            return [
                await client.call_tool(tool, arguments, read_timeout_seconds=120)
                for tool, arguments in ANSWERS.values()
            ]


def _text(result: CallToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def markdown(found: list[Cost]) -> list[str]:
    """The section of RESULTS.md."""
    total = Cost("**all**", *(sum(getattr(cost, part) for cost in found) for part in ("text", "structured", "both")))
    return [
        "## Tokens of an answer that reach the model",
        "",
        "With `results.structured_content` off, which is the default, every host shows its model the text. On, hosts",
        "differ: opencode, Gemini CLI and Zed show the text, Claude Code, Codex and VS Code the structured content in",
        "its place, Copilot CLI, Qwen Code and Cline both. Tokens of o200k, without what hosts wrap around an answer.",
        "",
        "| answer | off; or on, in hosts with the text alone | on, structured content alone | on, both |",
        "|---|---|---|---|",
        *(f"| {cost.what} | {cost.text:,} | {cost.structured:,} | {cost.both:,} |" for cost in [*found, total]),
    ]
