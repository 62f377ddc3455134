"""Targets of calls: a tool, a resource that is listed or linked, or a prompt. The only callers of upstreams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.resources import MODULE, Found
from codemode_server.domain.errors import InvalidArguments
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import Effect
from codemode_server.gateway.arguments import check_arguments
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.names import READ_METHOD, READ_RESOURCE, Spellings, resource_names
from codemode_server.redaction import Redactor
from codemode_server.sandbox.contract import Reply
from codemode_server.settings import ServerSettings
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import failure_of
from codemode_server.upstreams.unmarked_errors import unmarked_error

READING = f"{MODULE}.read"
"""The name of reading a resource in reports, as programs call it."""
MAX_OUTDATED = 20
"""How often one call is decided again since its tool or the configuration has changed."""
_PROMPTS = "prompts"
"""Before the name of a prompt in `permissions.rules`, in reports and in records."""


class Upstreams(Protocol):
    """Interface of the upstreams for a call."""

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        is_raw: bool,
        progress: CallProgress,
        revision: int,
        definition: str,
    ) -> Reply:
        """Call a tool by its raw names; what the upstream reports meanwhile is written to `progress`. With `is_raw` the
        result is as it came, also if it says that it is an error.
        `revision` is that of the configuration under which the call was allowed, `definition` the digest of the tool's
        definition, empty for any.

        Raises:
            DecisionOutdated: the configuration or the tool has changed; nothing was sent.
            ToolFailed, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """

    async def read_resource(self, server: str, uri: str, *, progress: CallProgress, revision: int) -> Reply:
        """Read a resource of a server by its raw name; raises as `call_tool` does."""

    async def get_prompt(
        self, server: str, name: str, arguments: dict[str, Any], *, progress: CallProgress, revision: int
    ) -> Reply:
        """A prompt with these arguments, as it came; raises as `call_tool` does."""


class SharedUpstreams(Protocol):
    """Interface of the upstreams for the gateway; their pool implements it."""

    def for_principal(self, principal: Principal) -> Upstreams:
        """The upstreams as this principal uses them: a connection that carries what a principal has signed in with is
        that principal's alone."""


@dataclass(frozen=True, slots=True)
class ToolTarget:
    """A tool of an upstream. `is_raw`: the program gets the whole result as the upstream sends it."""

    server: Server
    tool: Tool
    is_raw: bool = False

    @property
    def raw_name(self) -> str:
        return self.tool.raw_name

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def spellings(self) -> Spellings:
        return Spellings.of_tool(self.tool)

    @property
    def effect(self) -> Effect:
        return self.tool.effect

    def is_selected(self, server: ServerSettings) -> bool:
        """True if these settings of the server let programs use it."""
        return server.tools.selects(self.tool.raw_name)

    def check(self, arguments: dict[str, Any]) -> None:
        check_arguments(self.tool, arguments)

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments for the upstream: unchanged."""
        return arguments

    async def send(
        self,
        upstreams: Upstreams,
        calls: ExecutionCalls,
        arguments: dict[str, Any],
        progress: CallProgress,
        revision: int,
    ) -> Reply:
        server, tool, digest = self.server.raw_name, self.tool.raw_name, self.tool.definition.digest
        return await upstreams.call_tool(
            server, tool, arguments, is_raw=self.is_raw, progress=progress, revision=revision, definition=digest
        )

    def marked_error(self, value: JsonValue) -> str | None:
        """The error that a raw result is marked as, if it is one; the program gets the result all the same."""
        return failure_of(value) if self.is_raw else None

    def unmarked_error(self, reply: Reply, redactor: Redactor) -> str | None:
        """The error that a normal result consists of, if it is one, without secrets."""
        return None if self.is_raw or reply.encoding != "json" else unmarked_error(reply.value, redactor)


class _ReadTarget:
    """A resource or a prompt: it can only be read, and its answer is no error."""

    __slots__ = ()
    effect = Effect.READS

    def is_selected(self, server: ServerSettings) -> bool:
        return True

    def marked_error(self, value: JsonValue) -> str | None:
        return None

    def unmarked_error(self, reply: Reply, redactor: Redactor) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class ResourceTarget(_ReadTarget):
    """A resource of an upstream: one that a result of this execution links to, a listed one, or an expansion of a
    listed template."""

    server: Server
    found: Found
    is_linked: bool
    raw_name = READ_METHOD
    name = READING

    @classmethod
    def of(cls, calls: ExecutionCalls, server: Server, named: str, arguments: dict[str, Any]) -> ResourceTarget:
        """The resource that a program names: by its URI, or a listed one by its name as well."""
        if not arguments and (linked := calls.links.get((server.raw_name, named))) is not None:
            return cls(server, Found(linked, server.resources.at(linked)), True)
        return cls(server, server.resources.find(named, arguments), False)

    @property
    def recorded_uri(self) -> str:
        """The URI as records and the person see it."""
        known = self.found.resource
        return known.definition.public_uri if known and not known.is_template else self.found.uri

    @property
    def spellings(self) -> Spellings:
        """`read_resource` means every resource, `resources/…` one of this name or URI; of a template all expansions.

        A rule that refuses means all that the URI may be for the server, however the program named it; one that allows
        means only what was named.
        """
        known, meant = self.found.resource, self.server.resources.meant_by(self.found.uri)
        return Spellings(
            raw=READ_METHOD,
            python=READ_RESOURCE,
            also=resource_names(self.found.uri, *([known] if known else [])),
            to_refuse=resource_names(self.found.uri, *meant.resources),
            unknown_below="" if meant.is_complete else f"{MODULE}/",
        )

    def check(self, arguments: dict[str, Any]) -> None:
        if self.found.problem:
            raise InvalidArguments(self.found.problem)

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments for the upstream: the URI as it is sent, however the program named it."""
        return {"uri": self.found.uri}

    async def send(
        self,
        upstreams: Upstreams,
        calls: ExecutionCalls,
        arguments: dict[str, Any],
        progress: CallProgress,
        revision: int,
    ) -> Reply:
        return await upstreams.read_resource(self.server.raw_name, self.found.uri, progress=progress, revision=revision)


@dataclass(frozen=True, slots=True)
class PromptTarget(_ReadTarget):
    """A prompt of an upstream, which a person chose in the host."""

    server: Server
    prompt: PromptDefinition

    @property
    def raw_name(self) -> str:
        return f"{_PROMPTS}/{self.prompt.name}"

    name = raw_name

    @property
    def spellings(self) -> Spellings:
        return prompt_spellings(self.prompt.name)

    def check(self, arguments: dict[str, Any]) -> None:
        missing = [it.name for it in self.prompt.arguments if it.is_required and it.name not in arguments]
        if missing:
            raise InvalidArguments(
                f"the prompt {self.server.name}/{self.prompt.name} needs {', '.join(map(repr, missing))}"
            )

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def send(
        self,
        upstreams: Upstreams,
        calls: ExecutionCalls,
        arguments: dict[str, Any],
        progress: CallProgress,
        revision: int,
    ) -> Reply:
        names = self.server.raw_name, self.prompt.name
        return await upstreams.get_prompt(*names, arguments, progress=progress, revision=revision)


CallTarget = ToolTarget | ResourceTarget | PromptTarget


def prompt_spellings(name: str) -> Spellings:
    """The names under which a rule can mean a prompt."""
    return Spellings(f"{_PROMPTS}/{name}", f"{_PROMPTS}/{name}")


def title_of(target: CallTarget) -> str:
    """`server.tool`, as the program imported them."""
    return f"{target.server.name}.{target.name}"
