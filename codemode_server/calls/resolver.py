"""Finds what calls name in the catalog as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.names import READ_METHOD
from codemode_server.calls.targets import CallTarget, PromptTarget, ResourceTarget, ToolTarget
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.tools import Effect


class CatalogSource(Protocol):
    """Where the newest catalog comes from."""

    def current(self) -> Catalog: ...

    async def prepare(self) -> None:
        """Have `current` know all changes of listings so far."""


class TargetResolver:
    """Methods that find something raise `UnknownTool` if it is not there, with the nearest names."""

    def __init__(self, source: CatalogSource) -> None:
        self._source = source

    def tool(self, server: str, tool: str, *, is_raw: bool) -> ToolTarget:
        """By the names of `servers.<server>.<tool>`. `is_raw`: the program gets the whole result as it is sent."""
        found = self._source.current().server(server)
        return ToolTarget(found, found.tool(tool), is_raw=is_raw)

    def raw_tool(self, server: str, tool: str) -> ToolTarget:
        """By exactly these raw names, with the whole result."""
        offering = self.server(server)
        found = _by_raw_name(offering, tool)
        if offering is None or found is None:
            raise UnknownTool(f"{server!r} no longer has the tool {tool!r}; search_tools finds what it has now")
        return ToolTarget(offering, found, is_raw=True)

    def resource(self, calls: ExecutionCalls, server: str, named: str, arguments: dict[str, Any]) -> ResourceTarget:
        """One that a result of the same execution and server links to, or that the server lists, by URI or name;
        `arguments` are those of a template."""
        return ResourceTarget.of(calls, self._source.current().server(server), named, arguments)

    def prompt(self, server: str, name: str) -> PromptTarget:
        """By the raw names."""
        offering = self.server(server)
        found = next((it for it in offering.listing.prompts if it.name == name), None) if offering else None
        if offering is None or found is None:
            raise UnknownTool(f"{server!r} no longer has the prompt {name!r}")
        return PromptTarget(offering, found)

    async def newest(self, target: CallTarget) -> CallTarget:
        """The same tool as its server lists it now; what is gone, or no tool, stays as it was."""
        if not isinstance(target, ToolTarget):
            return target
        await self._source.prepare()
        server = self.server(target.server.raw_name) or target.server
        return replace(target, server=server, tool=_by_raw_name(server, target.raw_name) or target.tool)

    def effect_of(self, server: str, tool: str) -> Effect:
        """Effect of a call of these raw names, as far as the catalog says."""
        if tool == READ_METHOD:
            return Effect.READS
        found = _by_raw_name(self.server(server), tool)
        return Effect.UNKNOWN if found is None else found.effect

    def server(self, raw_name: str) -> Server | None:
        return next((it for it in self._source.current().servers if it.raw_name == raw_name), None)

    def of_modules(self, modules: Iterable[str]) -> list[Server]:
        """The servers of modules such as `servers.linear`."""
        by_name = self._source.current().by_name
        names = dict.fromkeys(module.split(".")[1] for module in modules)
        return [by_name[name] for name in names if name in by_name]


def _by_raw_name(server: Server | None, tool: str) -> Tool | None:
    return next((it for it in server.tools if it.raw_name == tool), None) if server else None
