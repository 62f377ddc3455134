"""The immutable snapshot of servers and tools; every change creates a new one.

Built from the listings of upstreams without reading schemas: parameters, stubs and hashes are computed on first use,
and unchanged tools are passed on to the next snapshot with them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from codemode_server.catalog.json_schema import Parameter, ToolInput, tool_input
from codemode_server.catalog.naming import server_names, tool_names
from codemode_server.catalog.nearest_names import is_reading_name, mistyped_names, nearest_servers, nearest_tools
from codemode_server.catalog.observed import Observed, ToolKey, schemas_digest
from codemode_server.catalog.resources import MODULE, Resource, ServerResources
from codemode_server.catalog.returns import ReturnType, result_form
from codemode_server.catalog.stubs import Stub, stub_of
from codemode_server.catalog.summaries import (
    NO_SHARED_OPENINGS,
    SharedOpenings,
    deprecation,
    first_sentence,
    tool_summary,
)
from codemode_server.catalog.untrusted import last_lines, one_line
from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import (
    STDERR_MARK,
    Effect,
    Refusal,
    ResultForm,
    ToolDefinition,
    UpstreamListing,
    UpstreamState,
    without_output,
)
from codemode_server.support.text import first_lines, joined_within

_MAX_NAMES_CHARACTERS = 110
_MAX_LEFT_OUT = 100
_STDERR_CHARACTERS = 300


@dataclass(frozen=True, eq=False)
class Tool:
    server: str
    name: str
    definition: ToolDefinition
    observed: Observed | None = None
    """The observations of its results at the time of this snapshot; None if results are not learned."""
    openings: SharedOpenings = NO_SHARED_OPENINGS

    @cached_property
    def raw_name(self) -> str:
        return self.definition.name

    @cached_property
    def effect(self) -> Effect:
        return self.definition.effect

    @cached_property
    def may_write(self) -> bool:
        """True unless it says that it only reads, or says nothing and its name does."""
        return self.effect is not Effect.READS and not (self.effect is Effect.UNKNOWN and is_reading_name(self.name))

    @property
    def path(self) -> str:
        return f"/servers/{self.server}/{self.name}.py"

    @property
    def import_line(self) -> str:
        return f"from servers.{self.server} import {self.name}"

    @cached_property
    def input(self) -> ToolInput:
        return tool_input(self.definition.input_schema)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.input.parameters

    @cached_property
    def summary(self) -> str:
        """One-line summary of the tool; empty if its description gives none."""
        return tool_summary(self.definition, self.openings.counts)

    @cached_property
    def deprecation(self) -> str:
        return deprecation(self.definition.description)

    @cached_property
    def stub(self) -> Stub:
        return stub_of(self.server, self.name, self.definition, self.input, self.observed, self.summary)

    @property
    def returned(self) -> ReturnType:
        return self.stub.returned

    @cached_property
    def result_form(self) -> ResultForm:
        return result_form(self.definition, self.observed)

    @cached_property
    def schemas_digest(self) -> str:
        return schemas_digest(self.definition)

    @cached_property
    def digest(self) -> bytes:
        it = self.definition
        texts = it.name, it.description, it.title or ""
        said = "\0".join((self.server, self.name, *texts, it.effect, self.schemas_digest))
        return hashlib.sha256(said.encode(errors="surrogatepass")).digest()


@dataclass(frozen=True, eq=False)
class Server:
    """One upstream as programs see it."""

    name: str
    """The Python name: the package `servers.<name>`."""
    listing: UpstreamListing
    tools: tuple[Tool, ...]
    openings: SharedOpenings = NO_SHARED_OPENINGS
    prompts: tuple[PromptDefinition, ...] = ()
    """Those of its listing that anybody may be told of."""

    @cached_property
    def raw_name(self) -> str:
        return self.listing.name

    @property
    def state(self) -> UpstreamState:
        return self.listing.state

    @property
    def problems(self) -> tuple[str, ...]:
        """The tools that are left out and other problems of its listing, for the person, a line each."""
        left_out = [f"left out: {name}: {reason}" for name, reason in self.listing.left_out.items()]
        return (*first_lines(left_out, _MAX_LEFT_OUT, "and {:,} more are left out"), *self.listing.problems)

    @property
    def description(self) -> str:
        return self.listing.description

    @cached_property
    def summary(self) -> str:
        """Its purpose in one line: from its description, else the names of its tools."""
        said = first_sentence(self.description, 160)
        if not said and len(self.tools) == 1:
            said = self.tools[0].summary
        return said or joined_within([tool.name for tool in self.tools], _MAX_NAMES_CHARACTERS)

    @property
    def error(self) -> str | None:
        """Why it is not ready, for the person; `cause` is what the model may read of it."""
        return self.listing.error_for_person or self.listing.error

    @property
    def is_available(self) -> bool:
        """True if a call can succeed: it is ready, or the first call connects it."""
        return not self.is_down and self.state not in (UpstreamState.DISABLED, UpstreamState.INVALID)

    @property
    def is_down(self) -> bool:
        """True if its last connection failed, also while it reconnects."""
        is_retrying = self.state is UpstreamState.CONNECTING and bool(self.listing.error)
        return is_retrying or self.state in (UpstreamState.FAILED, UpstreamState.SIGNED_OUT)

    @property
    def cause(self) -> str:
        """Why it is not ready, on one line, with the last lines of its stderr; empty if that is not known."""
        error = self.listing.error or ""
        _, mark, stderr = error.partition(STDERR_MARK)
        output = f"{mark.rstrip()} {last_lines(stderr, _STDERR_CHARACTERS)}" if mark else ""
        return one_line(without_output(error), 200) + output

    @property
    def availability(self) -> str:
        """Reason why calls fail; empty for an available server."""
        why = f" ({self.cause})" if self.listing.error else ""
        if self.state is UpstreamState.SIGNED_OUT:
            return f"unavailable: it {self.cause}"
        if self.is_down:
            return f"unavailable: calls fail until it is back{why}"
        return {
            UpstreamState.WAITING: "connecting",
            UpstreamState.CONNECTING: "connecting",
            UpstreamState.DISABLED: "disabled in upstream.yaml: calls fail",
            UpstreamState.INVALID: f"disabled because its configuration is invalid{why}; the user must fix it",
        }.get(self.state, "")

    @property
    def _why_no_tools(self) -> str:
        return {
            "": "has no tools",
            "disabled in upstream.yaml: calls fail": "is disabled in upstream.yaml; the user can enable it",
            "connecting": "has no tools yet: it is still connecting; run the program again later",
        }.get(self.availability, f"is {self.availability}")

    @property
    def known_tools(self) -> tuple[str, ...]:
        """The raw names of its tools; for a disabled server, those of its last listing."""
        return tuple(tool.raw_name for tool in self.tools) or self.listing.last_tools

    @cached_property
    def digest(self) -> bytes:
        said = hashlib.sha256(f"{self.name}\0{self.raw_name}\0{self.description}".encode(errors="surrogatepass"))
        for tool in self.tools:
            said.update(tool.digest)
        return said.digest()

    @cached_property
    def by_name(self) -> dict[str, Tool]:
        """By Python name and by raw name; the Python name wins a conflict."""
        return {tool.raw_name: tool for tool in self.tools} | {tool.name: tool for tool in self.tools}

    @cached_property
    def resources(self) -> ServerResources:
        return ServerResources(self.name, self.listing.resources, has_tool=MODULE in self.by_name)

    @property
    def members(self) -> list[str]:
        return [*(tool.name for tool in self.tools), *([self.resources.module] if self.listing.resources else [])]

    def has_resources_as(self, name: str) -> bool:
        return bool(self.listing.resources) and name == self.resources.module

    def has_member(self, name: str) -> bool:
        return name in self.by_name or self.has_resources_as(name)

    def source_of(self, member: str) -> str | None:
        if self.has_resources_as(member):
            return self.resources.source
        tool = self.by_name.get(member)
        return None if tool is None else tool.stub.source

    def reason_left_out(self, name: str) -> str | None:
        """Why a tool of this Python or raw name can't be used; None if the server lists none that is left out."""
        return next((why for raw, why in self.listing.left_out.items() if name in (raw, tool_names([raw])[raw])), None)

    def tool(self, name: str) -> Tool:
        """The tool of this Python or raw name. Raises `UnknownTool` with the nearest names."""
        found = self.by_name.get(name)
        if found is None:
            if (reason := self.reason_left_out(name)) is not None:
                raise UnknownTool(f"{one_line(name, 80)} is left out: {one_line(reason, 200)}")
            if not self.tools and not self.listing.resources and not self.prompts:
                raise UnknownTool(f"servers.{self.name} {self._why_no_tools}")
            resource = self.resources.of_words(name)
            meant = resource.usage if resource else nearest_tools(name, self.members)
            raise UnknownTool(f"no tool {shown(name)} in servers.{self.name}; {meant}")
        return found


@dataclass(frozen=True, eq=False)
class Catalog:
    servers: tuple[Server, ...] = ()

    @classmethod
    def build(
        cls,
        listings: Iterable[UpstreamListing],
        previous: Catalog | None = None,
        observed: Callable[[str, ToolDefinition], Observed | None] = lambda _server, _definition: None,
    ) -> Catalog:
        """The snapshot of these listings; reuses unchanged tools of `previous`. `observed` returns the observations of
        a new tool, given the raw name of its server."""
        by_raw = {listing.name: listing for listing in listings}
        names = server_names(by_raw)
        known = {server.raw_name: server for server in previous.servers} if previous else {}
        servers = [_server(names[raw], listing, known.get(raw), observed) for raw, listing in by_raw.items()]
        return cls(tuple(sorted(servers, key=lambda server: server.name)))

    def with_observed(self, news: Mapping[ToolKey, Observed]) -> Catalog:
        named = {(key.upstream, key.tool) for key in news}
        changed = {key.upstream for key in news}

        def renewed(server: Server, tool: Tool) -> Tool:
            if (server.raw_name, tool.raw_name) not in named:
                return tool
            found = news.get(ToolKey(server.raw_name, tool.raw_name, tool.schemas_digest))
            return dataclasses.replace(tool, observed=found) if found else tool

        return Catalog(
            tuple(
                dataclasses.replace(server, tools=tuple(renewed(server, tool) for tool in server.tools))
                if server.raw_name in changed
                else server
                for server in self.servers
            )
        )

    @property
    def connecting(self) -> list[str]:
        """The names of the servers whose tools are not known yet since they still connect."""
        states = (UpstreamState.WAITING, UpstreamState.CONNECTING)
        return [it.name for it in self.servers if not it.tools and it.state in states and not it.is_down]

    @cached_property
    def version(self) -> str:
        """Hash of what programs depend on: names, tools and schemas, but not the state of servers."""
        return hashlib.sha256(b"".join(server.digest for server in self.servers)).hexdigest()[:16]

    @cached_property
    def by_name(self) -> dict[str, Server]:
        """By Python name and by raw name; the Python name wins a conflict."""
        raw = {server.raw_name: server for server in self.servers}
        return raw | {server.name: server for server in self.servers}

    @property
    def tool_count(self) -> int:
        return sum(len(server.tools) for server in self.servers)

    def tools(self) -> Iterator[Tool]:
        for server in self.servers:
            yield from server.tools

    def server(self, name: str) -> Server:
        """The server of this Python or raw name. Raises `UnknownTool` with the nearest names."""
        found = self.by_name.get(name)
        if found is None:
            if not self.servers:
                raise UnknownTool(f"no server {shown(name)}; none is configured")
            near = nearest_servers(name, (server.name for server in self.servers))
            raise UnknownTool(f"no server {shown(name)}; {near}")
        return found

    def tool(self, server: str, tool: str) -> Tool:
        return self.server(server).tool(tool)

    def mistyped_tools(self, name: str) -> list[Tool]:
        """The tools for whose names this one is a typing mistake, a few at most."""
        names = mistyped_names(name, (tool.name for tool in self.tools()))
        return [server.by_name[near] for near in names for server in self.servers if near in server.by_name]


RefusalOf = Callable[[Server, Tool | Resource], Refusal | None]
"""Why every call of a tool, or reading of a resource, is refused; None if programs may use it."""


def no_refusal(_server: Server, _tool: Tool | Resource) -> None:
    """A `RefusalOf` without permissions."""


def shown(name: str) -> str:
    """A given name, quoted and bounded, for messages."""
    return f'"{one_line(name, 80)}"'


def _server(
    name: str,
    listing: UpstreamListing,
    previous: Server | None,
    observed: Callable[[str, ToolDefinition], Observed | None],
) -> Server:
    if previous is not None and previous.name == name and previous.listing is listing:
        return previous
    definitions: dict[str, ToolDefinition] = {}
    for definition in listing.tools:
        definitions.setdefault(definition.name, definition)
    names = tool_names(definitions)
    known = previous.by_name if previous is not None and previous.name == name else {}
    openings = _openings(definitions.values(), previous)
    tools = []
    for raw, definition in definitions.items():
        old = known.get(names[raw])
        if old is None or old.name != names[raw] or old.definition is not definition:
            old = Tool(name, names[raw], definition, observed(listing.name, definition), openings)
        elif old.openings is not openings and old.openings.counts != openings.counts:
            old = dataclasses.replace(old, openings=openings)
        tools.append(old)
    return Server(name, listing, tuple(tools), openings, listing.prompts)


def _openings(definitions: Iterable[ToolDefinition], previous: Server | None) -> SharedOpenings:
    """Shared openings of the descriptions; reuses the previous object if no description changed."""
    found = tuple(definition.description for definition in definitions)
    return previous.openings if previous and previous.openings.descriptions == found else SharedOpenings(found)
