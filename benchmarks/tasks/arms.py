"""The arms without a product, and those with codemode-server: what a model has at first, how it calls a tool, and the
turns of one that makes no mistake.

`opened(arm, task, place, log)` gives a session with processes of its own: the servers behind the recorder, and the
product before them. `Session.solve` makes the turns of the reference solution.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from fnmatch import fnmatch
from typing import Any, TextIO, cast

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from benchmarks.product import configuration
from benchmarks.tasks.peers import PEERS
from benchmarks.tasks.servers import entries
from benchmarks.tasks.sessions import Answer, Programs, Request, Session, request_of
from benchmarks.tasks.task import Call, Place, Task

DENIED = "The user has denied this tool."
BESIDE = (
    "fetch/fetch",
    "filesystem/read_text_file",
    "git/git_log",
    "git/git_show",
    "git/git_status",
    "memory/search_nodes",
    "orders/read_query",
    "time/convert_time",
)
"""Tools of the arm with tools beside: what is read often, chosen before anything was measured."""
TOOL_SEARCH: dict[str, Any] = {
    "name": "tool_search",
    "description": "Loads the definitions of deferred tools, so that they can be called. Query: `select:NAME,NAME` for "
    "tools by name, or words to search for. Deferred tools:",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


class Direct(Session):
    """The servers' own tools, all defined from the start."""

    async def missing(self, tools: Sequence[str]) -> list[str]:
        known = {each["name"] for each in self.definitions}
        return [tool for tool in tools if tool.replace("/", "__") not in known]

    async def solve(self) -> str:
        await self.turns_of(self.task.direct)
        return self.task.answer

    async def attempt(self, call: Call) -> None:
        await self.call(request_of(call))

    async def call(self, request: Request) -> Answer:
        """A host can deny whole tools, and asks the person before others; who says yes."""
        tool = request.name.replace("__", "/")
        if any(fnmatch(tool, rule["deny"]) for rule in self.task.permissions.get("rules", ()) if set(rule) == {"deny"}):
            return Answer(DENIED, is_error=True)
        return await super().call(request)


class Deferred(Direct):
    """As Claude Code does it with many tools: the model has their names, and a search brings the definitions."""

    deferred: dict[str, dict[str, Any]]
    """The tools whose definitions a search can bring, by name."""

    async def prepare(self) -> None:
        await super().prepare()
        self.deferred = {each["name"]: each for each in self.definitions}
        self.definitions = [TOOL_SEARCH | {"description": f"{TOOL_SEARCH['description']} {', '.join(self.deferred)}"}]

    async def missing(self, tools: Sequence[str]) -> list[str]:
        return [tool for tool in tools if tool.replace("/", "__") not in self.deferred]

    async def solve(self) -> str:
        names = dict.fromkeys(request_of(call).name for calls in self.task.direct for call in calls)
        await self.turn(Request("tool_search", {"query": f"select:{','.join(names)}"}))
        return await super().solve()

    async def call(self, request: Request) -> Answer:
        if request.name != "tool_search":
            return await super().call(request)
        wanted, _, names = str(request.arguments["query"]).partition("select:")
        found = [self.deferred[name] for name in names.split(",") if name in self.deferred]
        if wanted:
            words = set(re.findall(r"\w{3,}", wanted.lower()))

            def hits(definition: dict[str, Any]) -> int:
                text = f"{definition['name']} {definition['description']}".lower()
                return sum(word in text for word in words)

            found = [each for each in sorted(self.deferred.values(), key=hits, reverse=True)[:5] if hits(each)]
        return Answer("\n".join(map(json.dumps, found)) or "No tool matches.", not found)


class CodeMode(Programs):
    """codemode-server before the servers, with its own defaults but for rules and a backend that every machine has."""

    search = "search_tools"

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        sections = {"permissions": dict(self.task.permissions), "sandbox": {"backend": "wasm"}}
        config = configuration(self.place.folder.parent, servers, **sections)
        arguments = ["-m", "codemode_server", "serve", "--standalone", "--config", str(config)]
        return {"": {"command": sys.executable, "args": arguments}}

    async def unready(self) -> Sequence[str]:
        """As a host does, list tools again while servers list theirs. A call would end that: the text then stays."""
        shown = "\n".join(str(tool.description) for tool in (await self.clients[""].list_tools()).tools)
        lists = [rf"^servers\.{server}\b.*:$" for server in self.task.servers]
        return [] if all(re.search(it, shown, re.MULTILINE) for it in lists) else [shown]

    async def missing(self, tools: Sequence[str]) -> list[str]:
        async def is_read(tool: str) -> bool:
            path = f"servers/{re.sub(r'[^A-Za-z0-9/]', '_', tool)}"
            answers = [await self.call(Request("read_tool", {"path": f"{path}{end}"})) for end in (".py", "_.py")]
            return any("@tool(" in answer.text for answer in answers)

        return [tool for tool in tools if not await is_read(tool)]

    def is_found(self, tool: str, text: str) -> bool:
        """One that is named like a builtin ends with `_`."""
        server, _, name = tool.partition("/")
        blocks = re.split(r"^(?=(?:from )?servers\.)", text, flags=re.MULTILINE)
        return any(
            re.match(rf"(?:from )?servers\.{server}\b", block) and re.search(rf"^ *{name}_?\(", block, re.MULTILINE)
            for block in blocks
        )

    def reading(self, tools: Sequence[str]) -> Request:
        return Request("read_tool", {"path": ", ".join(f"servers/{tool}.py" for tool in tools)})


class Beside(CodeMode):
    """codemode-server that also offers some tools as they are, for tasks of at most two calls."""

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        chosen = {name: [tool.partition("/")[2] for tool in BESIDE if tool.startswith(f"{name}/")] for name in servers}
        return super().configured({name: entry | {"direct": chosen[name]} for name, entry in servers.items()})

    async def solve(self) -> str:
        calls = [call for calls in self.task.direct for call in calls]
        if len(calls) > 2 or not all(call.tool in BESIDE for call in calls):
            return await super().solve()
        await self.turns_of(self.task.direct)
        return self.task.answer


ARMS: dict[str, type[Session]] = {
    "direct": Direct,
    "deferred": Deferred,
    "codemode-server": CodeMode,
    "codemode-server, tools beside": Beside,
    **PEERS,
}


@asynccontextmanager
async def opened(
    arm: str, task: Task, place: Place, log: TextIO, servers: dict[str, dict[str, Any]] | None = None
) -> AsyncIterator[Session]:
    """A session that can call every server of the task; what processes say on stderr goes to `log`. `servers` are the
    entries of a task on others than the published ones.

    Raises:
        Unavailable: PyPI or npm can't be had.
    """
    session = ARMS[arm](task, place)
    async with AsyncExitStack() as stack:
        for name, entry in session.configured(servers or entries(place, task.servers)).items():
            process = stdio_client(StdioServerParameters(**entry), errlog=log)
            client = Client(process, mode="legacy", elicitation_callback=_approve)
            session.clients[name] = await stack.enter_async_context(client)
        await session.prepare()
        yield session


async def _approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """The person who takes the first choice that a form offers: yes, this once."""
    schema = cast("dict[str, Any]", getattr(params, "requested_schema", {}))
    return ElicitResult(action="accept", content={"answer": schema["properties"]["answer"]["enum"][0]})
