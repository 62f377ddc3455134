"""What a call is sent to: a tool, or a resource that an earlier result links to. The only callers of upstreams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.domain.errors import InvalidArguments
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.gateway.arguments import check_arguments
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy import Spellings
from codemode_server.redaction import Redactor
from codemode_server.sandbox.contract import Reply
from codemode_server.settings import ServerSettings
from codemode_server.text import clean_line
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import failure_of
from codemode_server.upstreams.unmarked_errors import unmarked_error

READ_RESOURCE = "read_resource"
"""The name of reading a linked resource in `permissions.rules` and in reports."""
_READ_METHOD = "resources/read"
"""Its name in records: the protocol's method."""


class Upstreams(Protocol):
    """What the gateway needs of the upstreams."""

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any], *, progress: CallProgress, revision: int
    ) -> Reply:
        """Call a tool by its raw names; what the upstream reports meanwhile is written to `progress`.
        `revision` is that of the configuration under which the call was allowed.

        Raises:
            DecisionOutdated: the configuration has another revision now; nothing was sent.
            ToolFailed, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """

    async def call_raw(
        self, server: str, tool: str, arguments: dict[str, Any], *, progress: CallProgress, revision: int
    ) -> dict[str, Any]:
        """As `call_tool`, but the result as it came, also if it says that it is an error."""

    async def read_resource(self, server: str, uri: str, *, progress: CallProgress, revision: int) -> Reply:
        """Read a resource of a server by its raw name; raises as `call_tool` does."""


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
        """Whether these settings of the server let programs use it."""
        return server.tools.selects(self.tool.raw_name)

    def check(self, calls: ExecutionCalls, arguments: dict[str, Any]) -> None:
        check_arguments(self.tool, arguments)

    async def send(
        self,
        upstreams: Upstreams,
        calls: ExecutionCalls,
        arguments: dict[str, Any],
        progress: CallProgress,
        revision: int,
    ) -> Reply:
        names = self.server.raw_name, self.tool.raw_name
        if self.is_raw:
            return Reply(await upstreams.call_raw(*names, arguments, progress=progress, revision=revision))
        return await upstreams.call_tool(*names, arguments, progress=progress, revision=revision)

    def marked_error(self, value: JsonValue) -> str | None:
        """The error that a raw result is marked as, if it is one; the program gets the result all the same."""
        return failure_of(value) if self.is_raw else None

    def unmarked_error(self, reply: Reply, redactor: Redactor) -> str | None:
        """The error that a normal result consists of, if it is one, without secrets."""
        return None if self.is_raw or reply.encoding != "json" else unmarked_error(reply.value, redactor)


@dataclass(frozen=True, slots=True)
class ResourceTarget:
    """A resource of an upstream, named by the argument `uri`."""

    server: Server
    raw_name = _READ_METHOD
    name = READ_RESOURCE
    spellings = Spellings(_READ_METHOD, READ_RESOURCE)
    effect = Effect.READS

    def is_selected(self, server: ServerSettings) -> bool:
        return True

    def check(self, calls: ExecutionCalls, arguments: dict[str, Any]) -> None:
        uri = arguments["uri"]
        if (self.server.raw_name, uri) not in calls.links:
            raise InvalidArguments(
                f"no result of {self.server.name} in this program links to {clean_line(uri, 200)!r}; only a link that "
                "a call gave can be fetched, by its file.fetch()"
            )

    async def send(
        self,
        upstreams: Upstreams,
        calls: ExecutionCalls,
        arguments: dict[str, Any],
        progress: CallProgress,
        revision: int,
    ) -> Reply:
        uri = calls.links[self.server.raw_name, arguments["uri"]]
        return await upstreams.read_resource(self.server.raw_name, uri, progress=progress, revision=revision)

    def marked_error(self, value: JsonValue) -> str | None:
        return None

    def unmarked_error(self, reply: Reply, redactor: Redactor) -> str | None:
        return None


CallTarget = ToolTarget | ResourceTarget


def title_of(target: CallTarget) -> str:
    """`server.tool`, as the program imported them."""
    return f"{target.server.name}.{target.name}"
