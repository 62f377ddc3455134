"""The host's side of one program: calls through the gateway, sources on import, search, shown files and artifacts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import anyio.to_thread

from codemode_server.calls.gateway import Gateway
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller
from codemode_server.domain.errors import ExecutionError, JournalUnavailable, UnknownTool
from codemode_server.domain.principals import Owner
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.attachments import Attachments
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayers
from codemode_server.sandbox.contract import ArgumentForms, Reply
from codemode_server.search.results import SearchResults

Search = Callable[[Caller, str, str, str | None, int, str | None], Awaitable[SearchResults]]
"""Searches by query, detail level, server, limit and effect."""
_MAX_IMPORTED = 100
"""The texts of so many skills are held for questions about calls; a person is not shown the lines of more."""
_MAX_MODULES = 30
_MAX_MODULES_CHARACTERS = 64 * 1024
"""Total source code of the modules that are sent with a program; it requests all others."""


class SkillModules(Protocol):
    """The skills as programs import and save them."""

    async def load(self, execution: Execution, path: tuple[str, ...]) -> dict[str, Any]:
        """The answer to an import of `skills.<path>`. Raises `MetaToolError`."""

    async def save(self, execution: Execution, name: str, text: str) -> str:
        """Save a skill; gives a line for the program. Raises `MetaToolError`."""

    def why_missing(self, owner: Owner, name: str) -> str:
        """Says that there is no skill of a name; empty if there is one, or that is not known."""


class WorkflowModules(Protocol):
    def names(self) -> list[str]: ...

    def source(self, name: str) -> str:
        """The text of its module. Raises `MetaToolError` if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramServices:
    gateway: Gateway
    catalog: Callable[[], Catalog]
    listed: Callable[[], Awaitable[None]]
    search: Search
    skills: SkillModules | None
    workflows: WorkflowModules | None
    artifacts: ArtifactStore


class ProgramHostApi:
    """Implements `HostApi` for one execution: nothing that a program sends can name another."""

    def __init__(self, execution: Execution, services: ProgramServices, layers: ExecutionLayers) -> None:
        self._execution, self._services, self._layers = execution, services, layers
        self._attachments = Attachments(execution, services.artifacts)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        raw: bool = False,
        forms: ArgumentForms = (),
    ) -> Reply:
        with _ending_without_record():
            return await self._services.gateway.call(
                self._execution.calls, server, tool, arguments, raw=raw, forms=forms
            )

    async def read(self, server: str, uri: str, arguments: dict[str, Any]) -> Reply:
        with _ending_without_record():
            return await self._services.gateway.read(self._execution.calls, server, uri, arguments)

    async def resources(self, server: str) -> list[Any]:
        return [resource.as_json() for resource in self._services.catalog().server(server).resources.all]

    async def load(self, module: str) -> dict[str, Any]:
        await self._services.listed()
        skills, workflows = self._services.skills, self._services.workflows
        match module.split("."):
            case ["servers"]:
                servers = self._services.catalog().servers
                return _package([server.name for server in servers], "The upstream servers.")
            case ["servers", server_name]:
                server = self._services.catalog().server(server_name)
                return _package(server.members, server.description)
            case ["servers", server_name, tool_name]:
                server = self._services.catalog().server(server_name)
                return _module(server.source_of(tool_name) or server.tool(tool_name).stub.source)
            case ["skills", *path] if skills is not None:
                return await self._skill(skills, tuple(path))
            case ["workflows"] if workflows is not None:
                return _package(workflows.names(), "Workflows, each a function.")
            case ["workflows", name] if workflows is not None:
                return _module(workflows.source(name))
            case _:
                raise UnknownTool(
                    f"there is no module {module!r}; there are servers.<server>, skills.<name> and workflows.<name>"
                )

    async def _skill(self, skills: SkillModules, path: tuple[str, ...]) -> dict[str, Any]:
        answer = await skills.load(self._execution, path)
        if "source" in answer:
            answer["source"] = text = await self._layers.take_text(self._execution, answer["source"])
            if len(self._execution.imported) < _MAX_IMPORTED:
                self._execution.imported["/".join(("skills", *path)) + ".py"] = text
        return answer

    async def save_skill(self, name: str, text: str) -> str:
        if self._services.skills is None:
            raise UnknownTool("this codemode-server saves no skills")
        return await self._services.skills.save(self._execution, name, text)

    def modules(self, imports: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Answers of `load` for existing modules of servers and tools that are small: a program gets them with its code
        and need not ask. Names of packages are left out, since few programs need them."""
        found: dict[str, dict[str, Any]] = {}
        room = _MAX_MODULES_CHARACTERS
        for module in islice(imports, _MAX_MODULES):
            _, server_name, *tool_name = module.split(".")
            server = self._services.catalog().by_name.get(server_name)
            if server is None:
                continue
            description = {"kind": "package", "doc": server.description}
            if tool_name:
                source = server.source_of(tool_name[0])
                if source is None:
                    continue
                description = _module(source)
            room -= sum(map(len, description.values()))
            if room < 0:
                break
            found[module] = description
        return found

    async def search(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        return (
            await self._services.search(self._execution.caller, query, detail_level, server, limit, effect)
        ).as_json()

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        return await self._attachments.show(data, mime_type, name)

    async def artifact(self, name: str | None) -> Reply:
        if name is None:
            items = self._services.artifacts.items(self._execution.owner)
            return Reply([item.name for item in items if item.kind != "calls"])
        return await anyio.to_thread.run_sync(self._services.artifacts.reply, self._execution.owner, name)


@contextmanager
def _ending_without_record() -> Iterator[None]:
    try:
        yield
    except JournalUnavailable as error:
        raise ExecutionError(f"the program was ended, since calls can no longer be recorded: {error}") from error


def _package(names: list[str], doc: str) -> dict[str, Any]:
    return {"kind": "package", "names": names, "doc": doc}


def _module(source: str) -> dict[str, Any]:
    return {"kind": "module", "source": source}
