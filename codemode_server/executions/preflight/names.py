"""Resolves names in a program to the servers and tools they import; ambiguous names are ignored.

A name counts only if all that binds it anywhere in the program are imports of the same thing: one that is assigned, a
parameter, a loop's variable or deleted as well is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.resources import ServerResources
from codemode_server.domain.calls import ANY, ResultKey
from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.tools import UpstreamState
from codemode_server.executions.preflight.guesses import advice_on_member
from codemode_server.executions.preflight.reading import Reading
from codemode_server.sandbox.guest.source import bound_by
from codemode_server.sandbox.importable import TOOL_MODULES

_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "importlib", "builtins"})
_OF_THE_ROOT = frozenset({"tool", "ToolError", "File"})
_MAX_UNKNOWN = 50
"""More unknown names are not recorded: each is compared with all known names, and the program may be hostile."""


@dataclass(frozen=True, slots=True)
class Package:
    """`servers`, or one server's package in it."""

    server: Server | None


@dataclass(frozen=True, slots=True)
class Form:
    """Another way to call a tool."""

    tool: Tool
    name: str
    """`raw`, `pages` or `map`; `module` for `servers.calc.hash`, the module of the function `hash_`."""


Target = Package | Tool | ServerResources | Form


@dataclass(frozen=True, slots=True)
class Unknown:
    """A server or tool that is named and does not exist."""

    node: ast.AST
    message: str
    is_sure: bool
    """False while its server may yet list more tools."""
    doubted: ResultKey


_BINDING_NOTHING = (
    ast.expr_context,
    ast.operator,
    ast.Constant,
    ast.Call,
    ast.Attribute,
    ast.BinOp,
    ast.Expr,
    ast.Module,
    ast.keyword,
    ast.alias,  # with its import
)
"""The kinds of most nodes; others may bind names."""


class Names:
    def __init__(self, reading: Reading, catalog: Catalog) -> None:
        self._catalog = catalog
        self.unknown: list[Unknown] = []
        self.star_of_others = False
        """True if it imports all names of an unknown module."""
        self.bound: dict[str, list[Target | None]] = {}
        self.imports_tools = False
        for node in reading.nodes:
            if isinstance(node, _BINDING_NOTHING) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
                continue
            for name, target in self._bindings(node):
                self.bound.setdefault(name, []).append(target)
        used = {node.id for node in reading.nodes if isinstance(node, ast.Name)} | self.bound.keys()
        self.is_dynamic = not _DYNAMIC.isdisjoint(used)
        """True if the program may bind names in ways that its text does not show."""
        self._stored = {
            node.attr
            for node in reading.nodes
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        for node in reading.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._note_unknown_member(node)

    def target(self, node: ast.expr) -> Target | None:
        """The server, tool or module that an expression certainly is."""
        if isinstance(node, ast.Name):
            targets = self.bound.get(node.id, [])
            return targets[0] if targets and targets.count(targets[0]) == len(targets) else None
        if isinstance(node, ast.Attribute) and node.attr not in self._stored:
            return self._member(self.target(node.value), node.attr)
        return None

    def _member(self, owner: Target | None, name: str) -> Target | None:
        match owner:
            case Package(server=None):
                return self._server(name)
            case Package(server=Server() as server) if server.has_resources_as(name):
                return server.resources
            case Package(server=Server() as server):
                found = server.by_name.get(name)
                return found if found is None or found.name == name else Form(found, "module")
            case Form(name="module", tool=found) if found.name == name:
                return found
            case Tool(name=own) if own == name:  # `import servers.github.create_issue as ci; ci.create_issue(…)`
                return owner
            case Tool() if name in ("raw", "pages", "map"):
                return Form(owner, name)
            case _:
                return None

    def _server(self, name: str) -> Package | None:
        try:
            return Package(self._catalog.server(name))
        except UnknownTool:
            return None

    def _note_unknown_member(self, node: ast.Attribute) -> None:
        owner = self.target(node.value)
        if not isinstance(owner, Package) or node.attr.startswith("__") or node.attr in self._stored:
            return
        if owner.server is None:
            if node.attr not in _OF_THE_ROOT:
                self._note_unknown(node, [node.attr])
        else:
            self._note_unknown(node, [owner.server.name, node.attr])

    def _note_unknown(self, node: ast.AST, path: list[str]) -> bool:
        """Record a server or tool that does not exist; says whether that is so."""
        if len(self.unknown) >= _MAX_UNKNOWN:
            known = self._catalog.by_name.get(path[0])
            return known is None or (len(path) > 1 and not known.has_member(path[1]))
        try:
            server = self._catalog.server(path[0])
        except UnknownTool as error:
            guess = advice_on_member(path[-1], self._catalog)
            message = str(error).partition(";")[0] + f"; {guess}" if guess else str(error)
            self.unknown.append(Unknown(node, message, is_sure=True, doubted=ResultKey(path[0], ANY)))
            return True
        try:
            if len(path) > 1 and not server.has_member(path[1]):
                server.tool(path[1])
        except UnknownTool as error:
            is_settled = bool(server.tools) if server.state is UpstreamState.READY else not server.is_available
            is_settled |= server.reason_left_out(path[1]) is not None
            is_builtin = path[1] == "ToolError"
            message = f"{path[1]} is there without an import" if is_builtin else str(error)
            self.unknown.append(
                Unknown(node, message, is_settled, ResultKey(server.name, path[1] if is_settled else ""))
            )
            return True
        return False

    def _bindings(self, node: ast.AST) -> Iterator[tuple[str, Target | None]]:
        """The names that a node binds, each with what it is bound to."""
        match node:
            case ast.Import():
                for alias in node.names:
                    yield self._of_import(alias)
            case ast.ImportFrom():
                yield from self._of_import_from(node)
            case _:
                yield from ((name, None) for name in bound_by(node))

    def _of_import(self, alias: ast.alias) -> tuple[str, Target | None]:
        root, *path = alias.name.split(".")
        self.imports_tools |= root in TOOL_MODULES
        if root != "servers":
            return alias.asname or root, None
        if path and self._note_unknown(alias, path):
            return alias.asname or root, None
        found: Target | None = Package(None)
        if alias.asname:
            for name in path:
                found = self._member(found, name)
        return alias.asname or root, found

    def _of_import_from(self, node: ast.ImportFrom) -> Iterator[tuple[str, Target | None]]:
        root, *path = (node.module or "").split(".")
        if node.level:
            root = ""
        self.imports_tools |= root in TOOL_MODULES
        if root == "servers" and path and self._note_unknown(node, path):
            yield from ((alias.asname or alias.name, None) for alias in node.names)
            return
        for alias in node.names:
            if alias.name == "*":
                yield from self._of_star(root, path)
            else:
                yield alias.asname or alias.name, self._imported(root, path, alias)

    def _imported(self, root: str, path: list[str], alias: ast.alias) -> Target | None:
        if root != "servers" or alias.name.startswith("_"):
            return None
        owner: Target | None = Package(None)
        for name in path:
            owner = self._member(owner, name)
        is_package = isinstance(owner, Package) and (path or alias.name not in _OF_THE_ROOT)
        if is_package and self._note_unknown(alias, [*path, alias.name]):
            return None
        return self._member(owner, alias.name)

    def _of_star(self, root: str, path: list[str]) -> Iterator[tuple[str, Target | None]]:
        owner = self._server(path[0]) if root == "servers" and len(path) == 1 else None
        if owner is None or owner.server is None:
            self.star_of_others = True
            return
        for name in owner.server.members:
            yield name, self._member(owner, name)
