"""The arms of other products with code mode, from their packages: FastMCP's CodeMode and toolplane.

Both run programs in Monty, an interpreter of a subset of Python. Their programs are ours, with each call in the form
that the product shows; a result stays the text of the server where it declares no other.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from benchmarks.tasks.sessions import READY_SECONDS, Answer, Request, Session
from benchmarks.tasks.task import Call
from scripts.real_servers import environment

PACKAGES = ("fastmcp==4.2.3", "toolplane==0.5.2", "pydantic-monty==1.4.0")
FASTMCP_SERVER = Path(__file__).with_name("fastmcp_server.py")


class Peer(Session):
    """What both have in common: search, read the definitions that the search does not show, run."""

    execute: str

    async def prepare(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while unknown := await self.missing(self.task.needed):
            if time.monotonic() > deadline:
                raise TimeoutError(", ".join(unknown))
            await anyio.sleep(0.1)
        await super().prepare()

    async def discover(self) -> None:
        raise NotImplementedError

    def called(self, server: str, tool: str, arguments: list[ast.keyword]) -> ast.Call:
        """The call of a tool in a program."""
        raise NotImplementedError

    async def solve(self) -> str:
        await self.discover()
        answer = Answer("")
        for program in self.task.plain_programs or self.task.programs:
            (answer,) = await self.turn(Request(self.execute, {"code": self.translated(program)}))
        return self.task.answer if self.task.is_judged else answer.text

    async def attempt(self, call: Call) -> None:
        arguments = [ast.keyword(name, ast.Constant(value)) for name, value in call.arguments.items()]
        program = f"await {ast.unparse(self.called(call.server, call.name, arguments))}"
        await self.call(Request(self.execute, {"code": program}))

    def translated(self, program: str) -> str:
        """One of our programs, in the form of this product."""
        tree = ast.parse(program)
        return ast.unparse(ast.fix_missing_locations(_Translation(self).visit(tree)))


class FastMCP(Peer):
    """Search gives names, `get_schema` the parameters."""

    execute = "execute"

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        config = self.place.folder.parent / "servers.json"
        config.write_text(json.dumps(servers))
        return {"": {"command": str(_python()), "args": [str(FASTMCP_SERVER), str(config)]}}

    async def missing(self, tools: Sequence[str]) -> list[str]:
        answer = await self.call(Request("get_schema", {"tools": [tool.replace("/", "_") for tool in tools]}))
        return [tool for tool in tools if f"### {tool.replace('/', '_')}\n" not in answer.text]

    async def discover(self) -> None:
        (found,) = await self.turn(Request("search", {"query": self.task.search}))
        names = [tool.replace("/", "_") for tool in self.task.needed]
        self.recall = sum(f"- {name}:" in found.text for name in names) / len(names)
        await self.turn(Request("get_schema", {"tools": names}))

    def called(self, server: str, tool: str, arguments: list[ast.keyword]) -> ast.Call:
        names: list[ast.expr | None] = [ast.Constant(each.arg) for each in arguments]
        values = ast.Dict(names, [each.value for each in arguments])
        return ast.Call(ast.Name("call_tool"), [ast.Constant(f"{server}_{tool}"), values], [])


class Toolplane(Peer):
    """The description of `execute_code` shows the calls of some tools, and a search those of all that it finds."""

    execute = "execute_code"

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        lines = []
        for name, entry in servers.items():
            lines += [f"[mcp.servers.{name}]", f"command = {json.dumps(entry['command'])}"]
            lines += [f"args = {json.dumps(entry['args'])}"]
            env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in entry["env"].items())
            lines += [f"env = {{ {env} }}"] if env else []
        config = self.place.folder.parent / "toolplane.toml"
        config.write_text("\n".join(lines))
        command = str(_python().with_name("toolplane"))
        return {"": {"command": command, "args": ["serve", "mcp", "--config", str(config)]}}

    async def missing(self, tools: Sequence[str]) -> list[str]:
        answer = await self.call(Request("get_capability_schemas", {"names": [f"mcp:{tool}" for tool in tools]}))
        return [tool for tool in tools if f"### mcp:{tool}\n" not in answer.text]

    async def discover(self) -> None:
        names = [tool.replace("/", "_") for tool in self.task.needed]
        known = "\n".join(str(each["description"]) for each in self.definitions)
        if all(f"await {name}(" in known for name in names):
            return
        (found,) = await self.turn(Request("search_capabilities", {"query": self.task.search}))
        missed = [tool for tool in self.task.needed if f"[mcp:{tool}]" not in found.text]
        self.recall = 1 - len(missed) / len(self.task.needed)
        if missed:
            await self.turn(Request("get_capability_schemas", {"names": [f"mcp:{tool}" for tool in missed]}))

    def called(self, server: str, tool: str, arguments: list[ast.keyword]) -> ast.Call:
        return ast.Call(ast.Name(f"{server}_{tool}"), [], arguments)


class _Translation(ast.NodeTransformer):
    """Replaces the imports of tools, and what calls them."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._tools: dict[str, tuple[str, str]] = {}
        self._is_gathered = False

    def visit_Module(self, node: ast.Module) -> ast.Module:
        last = node.body[-1]
        if isinstance(last, ast.Expr):
            node.body[-1] = ast.Return(last.value)
        self.generic_visit(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        if not (node.module or "").startswith("servers."):
            return node
        server = (node.module or "").removeprefix("servers.")
        self._tools |= {each.name: (server, each.name.removesuffix("_")) for each in node.names}
        return None

    def visit_Call(self, node: ast.Call) -> ast.expr:
        is_gather = isinstance(node.func, ast.Attribute) and node.func.attr == "gather"
        self._is_gathered, outer = is_gather or self._is_gathered, self._is_gathered
        self.generic_visit(node)
        self._is_gathered = outer
        if not isinstance(node.func, ast.Name) or node.func.id not in self._tools:
            return node
        call = self._peer.called(*self._tools[node.func.id], node.keywords)
        return call if self._is_gathered else ast.Await(call)


def _python() -> Path:
    """The interpreter with both packages.

    Raises:
        Unavailable: PyPI can't be had.
    """
    return environment("tasks-peers", PACKAGES, "\n".join(PACKAGES))


PEERS: dict[str, type[Session]] = {"FastMCP CodeMode": FastMCP, "toolplane": Toolplane}
