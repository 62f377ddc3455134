"""Targets of calls: a tool, a resource that is listed or linked, or a prompt. The only callers of upstreams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codemode_server.calls.arguments import check_arguments
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.names import READ_METHOD, READ_RESOURCE, Spellings, resource_names
from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.resources import MODULE, Found
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import InvalidArguments
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.progress import CallProgress

if TYPE_CHECKING:
    from codemode_server.upstreams.pool import RoutedCalls

READING = f"{MODULE}.read"
"""The name of reading a resource in reports, as programs call it."""
MAX_OUTDATED = 20
"""How often one call is decided again since its tool or the configuration has changed."""


class _Target:
    """Rules that hold unless a kind of target has its own."""

    may_write = False
    """True if a call of it may change something."""

    def is_selected(self, server: ServerSettings) -> bool:
        """True if these settings of the server let programs use it."""
        return True

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments for the upstream."""
        return arguments


@dataclass(frozen=True)
class ToolTarget(_Target):
    """A tool of an upstream. `is_raw`: the program gets the whole result as the upstream sends it."""

    server: Server
    tool: Tool
    is_raw: bool = False

    @cached_property
    def raw_name(self) -> str:
        return self.tool.raw_name

    @cached_property
    def name(self) -> str:
        return self.tool.name

    @cached_property
    def spellings(self) -> Spellings:
        return Spellings.of_tool(self.tool)

    @cached_property
    def effect(self) -> Effect:
        return self.tool.effect

    @cached_property
    def may_write(self) -> bool:  # type: ignore[override]
        return self.tool.may_write

    def is_selected(self, server: ServerSettings) -> bool:
        return server.tools.selects(self.tool.raw_name)

    def check(self, arguments: dict[str, Any]) -> None:
        check_arguments(self.tool, arguments)


@dataclass(frozen=True, slots=True)
class ResourceTarget(_Target):
    """A resource of an upstream: one that a result of this execution links to, a listed one, or an expansion of a
    listed template."""

    server: Server
    found: Found
    is_linked: bool
    raw_name = READ_METHOD
    name = READING
    effect = Effect.READS
    is_raw = False

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
        """`read_resource` means every resource, `resources/…` one of this name or URI; of a template all expansions. A
        rule that refuses means all that the URI may be for the server, however the program named it; one that allows
        means only what was named."""
        known = self.found.resource
        meant, is_complete = self.server.resources.meant_by(self.found.uri)
        return Spellings(
            raw=READ_METHOD,
            python=READ_RESOURCE,
            also=resource_names(self.found.uri, *([known] if known else [])),
            to_refuse=resource_names(self.found.uri, *meant),
            unknown_below="" if is_complete else f"{MODULE}/",
        )

    def check(self, arguments: dict[str, Any]) -> None:
        if self.found.problem:
            raise InvalidArguments(self.found.problem)

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The URI as it is sent, however the program named it."""
        return {"uri": self.found.uri}


@dataclass(frozen=True, slots=True)
class PromptTarget(_Target):
    """A prompt of an upstream, which a person chose in the host."""

    server: Server
    prompt: PromptDefinition
    effect = Effect.READS
    is_raw = True

    @property
    def raw_name(self) -> str:
        return self.spellings.raw

    name = raw_name

    @property
    def spellings(self) -> Spellings:
        return Spellings.of_prompt(self.prompt.name)

    def check(self, arguments: dict[str, Any]) -> None:
        missing = [it.name for it in self.prompt.arguments if it.is_required and it.name not in arguments]
        if missing:
            raise InvalidArguments(
                f"the prompt {self.server.name}/{self.prompt.name} needs {', '.join(map(repr, missing))}"
            )


CallTarget = ToolTarget | ResourceTarget | PromptTarget


async def send(
    upstreams: RoutedCalls, target: CallTarget, arguments: dict[str, Any], progress: CallProgress, revision: int
) -> Reply:
    """Send a call of the target to its upstream; raises as `RoutedCalls.call_tool` does, and
    `DecisionOutdated` if the configuration or the tool has changed; nothing was sent then."""
    match target:
        case ToolTarget(server, tool, is_raw):
            return await upstreams.call_tool(
                server.raw_name,
                tool.raw_name,
                arguments,
                is_raw=is_raw,
                progress=progress,
                revision=revision,
                definition=tool.definition.digest,
                form=tool.result_form,
                needs_task=tool.definition.needs_task,
            )
        case ResourceTarget(server, found):
            return await upstreams.read_resource(server.raw_name, found.uri, progress=progress, revision=revision)
        case PromptTarget(server, prompt):
            names = server.raw_name, prompt.name
            return await upstreams.get_prompt(*names, arguments, progress=progress, revision=revision)


def title_of(target: CallTarget) -> str:
    """`server.tool`, as the program imported them."""
    return f"{target.server.name}.{target.name}"
