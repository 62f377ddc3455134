"""Where direct tools win and where programs do, in tokens and turns: writes benchmarks/DIRECT.md.

Three tasks, each done in every way by a scripted model through a real client: what is counted are the messages that
went over the wire. A turn is one answer of the model; calls that do not depend on each other share one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import bpe_openai
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from codemode_server.app import App
from codemode_server.config import load

HERE = Path(__file__).parent
REPORT = HERE / "DIRECT.md"
TOOLSET = HERE.parent.parent / "shared" / "toolsets" / "@modelcontextprotocol__server-github.json"
_ENCODING = bpe_openai.get_encoding("o200k_base")
_ANSWER_TOKENS = 30
"""What the model says at the end of a task; the same in every way."""

Call = tuple[str, dict[str, Any]]
REPO = {"owner": "acme", "repo": "shop"}


@dataclass(frozen=True)
class Task:
    """One task: the calls of each turn, and the program that does the same."""

    name: str
    turns: Sequence[Sequence[Call]]
    query: str
    program: str

    @property
    def tools(self) -> list[str]:
        return sorted({name for turn in self.turns for name, _ in turn})


TASKS = (
    Task(
        "1 short call",
        [[("add_issue_comment", {**REPO, "issue_number": 7, "body": "Fixed in 2.1."})]],
        "comment on an issue",
        "from servers.github import add_issue_comment\n"
        "add_issue_comment(owner='acme', repo='shop', issue_number=7, body='Fixed in 2.1.')['html_url']",
    ),
    Task(
        "3 dependent calls",
        [
            [("get_issue", {**REPO, "issue_number": 7})],
            [("get_pull_request", {**REPO, "pull_number": 107})],
            [("get_pull_request_status", {**REPO, "pull_number": 107})],
        ],
        "read an issue, its pull request and the status of that",
        "import re\n"
        "from servers.github import get_issue, get_pull_request, get_pull_request_status\n"
        "issue = get_issue(owner='acme', repo='shop', issue_number=7)\n"
        "number = int(re.search(r'Fixed by #(\\d+)', issue['body'])[1])\n"
        "pull = get_pull_request(owner='acme', repo='shop', pull_number=number)\n"
        "status = get_pull_request_status(owner='acme', repo='shop', pull_number=number)\n"
        "{'title': pull['title'], 'mergeable': pull['mergeable'], 'status': status['state']}",
    ),
    Task(
        "a loop over 50 items",
        [[("get_issue", {**REPO, "issue_number": number}) for number in range(1, 51)]],
        "read an issue",
        "from collections import Counter\n"
        "from servers.github import get_issue\n"
        "found = get_issue.map([{'owner': 'acme', 'repo': 'shop', 'issue_number': n} for n in range(1, 51)])\n"
        "Counter(label['name'] for issue in found for label in issue['labels'])",
    ),
)


@dataclass
class Conversation:
    """What a model reads and writes in one task."""

    client: Client
    definitions: int = 0
    """Tokens of the tools and the instructions, which are in every turn."""
    messages: int = 0
    """Tokens of all calls and their results."""
    turns: int = 0
    read: int = 0
    """Tokens that the model read in all turns together."""

    async def begin(self) -> None:
        tools = (await self.client.list_tools()).tools
        shown = [{"name": it.name, "description": it.description, "input_schema": it.input_schema} for it in tools]
        self.definitions = sum(tokens(_json(one)) for one in shown) + tokens(self.client.instructions or "")

    async def turn(self, calls: Sequence[Call]) -> None:
        """One answer of the model with these calls, and their results."""
        self._read_all()
        for name, arguments in calls:
            result = await self.client.call_tool(name, arguments, read_timeout_seconds=100)
            text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
            if result.is_error:
                raise RuntimeError(f"{name}: {text}")
            self.messages += tokens(_json({"name": name, "input": arguments})) + tokens(text)

    def end(self) -> None:
        """The answer to the user."""
        self._read_all()
        self.messages += _ANSWER_TOKENS

    def _read_all(self) -> None:
        self.turns += 1
        self.read += self.definitions + self.messages


def tokens(text: str) -> int:
    return len(_ENCODING.encode(text))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _upstream() -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(HERE / "direct_upstream.py"), str(TOOLSET)]}


@asynccontextmanager
async def plain() -> AsyncIterator[Client]:
    """The upstream itself, as a host has it today."""
    command = _upstream()
    async with Client(StdioServerParameters(command=command["command"], args=command["args"])) as client:
        yield client


@asynccontextmanager
async def product(**settings: Any) -> AsyncIterator[Client]:
    """The product with that upstream behind it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "upstream.yaml"
        servers = {"github": {**_upstream(), **settings}}
        path.write_text(_json({"servers": servers, "state": {"dir": folder}, "search": {"ranker": "lexical"}}))
        async with App.open(load(path)) as app, Client(app.front) as client:
            app.connect()
            await app.pool.wait_settled(30)
            yield client


async def by_calls(client: Client, task: Task, prefix: str) -> Conversation:
    talk = Conversation(client)
    await talk.begin()
    for turn in task.turns:
        await talk.turn([(f"{prefix}{name}", arguments) for name, arguments in turn])
    talk.end()
    return talk


async def by_program(client: Client, task: Task, *, searches: bool) -> Conversation:
    talk = Conversation(client)
    await talk.begin()
    if searches:
        await talk.turn([("search_tools", {"query": task.query})])
    await talk.turn([("execute_code", {"code": task.program})])
    talk.end()
    return talk


async def measure(task: Task) -> dict[str, Conversation]:
    """The task in every way."""
    found = {}
    async with plain() as client:
        found["the server itself, 26 tools"] = await by_calls(client, task, "")
    async with product(expose="direct") as client:
        found["`expose: direct`, 4 + 26 tools"] = await by_calls(client, task, "github__")
    async with product(direct=task.tools) as client:
        found["`direct:` what the task needs"] = await by_calls(client, task, "github__")
    async with product() as client:
        found["a program, after a search"] = await by_program(client, task, searches=True)
        found["a program, tools known"] = await by_program(client, task, searches=False)
    return found


def table(task: Task, found: dict[str, Conversation]) -> str:
    rows = [f"| {way} | {it.definitions:,} | {it.messages:,} | {it.turns} | {it.read:,} |" for way, it in found.items()]
    head = f"| {task.name} | definitions | calls and results | turns | read in all turns |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


async def report() -> str:
    tables = [table(task, await measure(task)) for task in TASKS]
    about = """\
# Direct tools and programs

Written by `make bench-direct`. Tokens (o200k) of what went between a real client and the product, or the server itself,
with the 26 definitions of `@modelcontextprotocol/server-github` and made-up answers in the form of GitHub's. The model
is scripted: it knows each time what to call. Calls that do not depend on each other share a turn. *Definitions* are in
each turn, and hosts cache them; *read in all turns* is what the model reads altogether without a cache. The definitions
of a program are our four tools and the instructions (RESULTS.md has their tokens without any server), with what
`execute_code` lists of this server and its tools."""
    return "\n\n".join([about, *tables]) + "\n"


if __name__ == "__main__":
    REPORT.write_text(anyio.run(report))
    print(REPORT.read_text())
