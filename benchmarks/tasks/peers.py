"""The arms of other products with code mode, from their packages: FastMCP's CodeMode and toolplane.

Both run programs in Monty, an interpreter of a subset of Python. Their programs are ours, with each call in the form
that the product shows; a result stays the text of the server where it declares no other.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.sessions import Programs, Request, Session
from scripts.real_servers import environment

PACKAGES = ("fastmcp==4.2.3", "toolplane==0.5.2", "pydantic-monty==1.4.0")
FASTMCP_SERVER = Path(__file__).with_name("fastmcp_server.py")


class Peer(Programs):
    """What both have in common."""

    def called(self, server: str, tool: str, arguments: list[ast.keyword]) -> ast.Call:
        """The call of a tool in a program."""
        raise NotImplementedError

    def programs(self) -> Sequence[str]:
        return self.task.plain_programs or self.task.programs

    def translated(self, program: str) -> str:
        tree = ast.parse(program)
        return ast.unparse(ast.fix_missing_locations(_Translation(self).visit(tree)))


class FastMCP(Peer):
    """Search gives names, `get_schema` the parameters."""

    execute, search = "execute", "search"
    defines_what_it_finds = False

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        config = self.place.folder.parent / "servers.json"
        config.write_text(json.dumps(servers))
        return {"": {"command": str(_python()), "args": [str(FASTMCP_SERVER), str(config)]}}

    async def missing(self, tools: Sequence[str]) -> list[str]:
        answer = await self.call(self.reading(tools))
        return [tool for tool in tools if f"### {tool.replace('/', '_')}\n" not in answer.text]

    def is_defined(self, tool: str, text: str) -> bool:
        return False

    def is_found(self, tool: str, text: str) -> bool:
        return f"- {tool.replace('/', '_')}:" in text

    def reading(self, tools: Sequence[str]) -> Request:
        return Request("get_schema", {"tools": [tool.replace("/", "_") for tool in tools]})

    def called(self, server: str, tool: str, arguments: list[ast.keyword]) -> ast.Call:
        names: list[ast.expr | None] = [ast.Constant(each.arg) for each in arguments]
        values = ast.Dict(names, [each.value for each in arguments])
        return ast.Call(ast.Name("call_tool"), [ast.Constant(f"{server}_{tool}"), values], [])


class Toolplane(Peer):
    """The description of `execute_code` shows the calls of some tools, and a search those of all that it finds."""

    search = "search_capabilities"

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
        answer = await self.call(self.reading(tools))
        return [tool for tool in tools if f"### mcp:{tool}\n" not in answer.text]

    def is_defined(self, tool: str, text: str) -> bool:
        return f"await {tool.replace('/', '_')}(" in text

    def is_found(self, tool: str, text: str) -> bool:
        return f"[mcp:{tool}]" in text

    def reading(self, tools: Sequence[str]) -> Request:
        return Request("get_capability_schemas", {"names": [f"mcp:{tool}" for tool in tools]})

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
