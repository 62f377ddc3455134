"""The product as the MCP server sees it, and what a meta-tool gets with each call. `app.App` is the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from codemode_server.calls.policy.refusals import Refusals
    from codemode_server.catalog.catalog import Catalog
    from codemode_server.config.live import Caller, LiveConfig
    from codemode_server.domain.ids import ExecutionId
    from codemode_server.domain.input_requests import Feature, HostInput
    from codemode_server.domain.principals import Owner, Principal
    from codemode_server.domain.skills import Skill
    from codemode_server.executions.artifacts import ArtifactStore
    from codemode_server.executions.execution import Execution
    from codemode_server.executions.service import ExecutionService
    from codemode_server.executions.workspace import Workspace
    from codemode_server.mcp_server.host_requests import HostRequests
    from codemode_server.mcp_server.tools.registry import Answer
    from codemode_server.search.results import SearchResults


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls a tool or asks for a prompt, and what the answer may be made of."""

    caller: Caller
    product: Product
    host: HostRequests


class Product(Protocol):
    """Parts of a running product."""

    config: LiveConfig
    refusals: Refusals
    executions: ExecutionService
    artifacts: ArtifactStore

    @property
    def activity(self) -> str:
        """The current start-up step of the sandbox; empty when it is ready."""

    @property
    def tools(self) -> ListedTools: ...
    @property
    def search(self) -> Search: ...
    @property
    def skills(self) -> Skills | None: ...
    @property
    def workflows(self) -> Workflows | None: ...
    @property
    def sources(self) -> Sources: ...
    @property
    def privacy(self) -> Privacy | None: ...
    @property
    def exchanges(self) -> Sequence[Exchanges]: ...
    @property
    def reruns(self) -> Reruns | None: ...
    def workspace(self, principal: Principal) -> Workspace: ...
    def connect(self, features: frozenset[Feature], folder: str) -> None:
        """A host with these features has had its first answer. The first host works in `folder`."""

    async def why_not_ready(self) -> str:
        """Why it can run no program now, without a word about the configuration; empty if it can."""

    def metrics_text(self, principal: Principal | None) -> str | None:
        """Answer to `/metrics`; None if there is none for this reader. None is the person who runs the product."""


class ListedTools(Protocol):
    """The current tools of all servers, and what of them a host is offered."""

    @property
    def direct_tools(self) -> DirectTools | None:
        """None if the configuration offers the host no tool of a server."""

    @property
    def prompts(self) -> Prompts | None:
        """None if no server has prompts."""

    @property
    def unlisted_at_start(self) -> frozenset[str]:
        """Raw names of the servers whose tools were not known when the product began to start."""

    def offered(self) -> list[dict[str, Any]]:
        """The answer to `tools/list` for a session that begins now."""

    def current(self) -> Catalog: ...
    async def wait_for_listing(self) -> None:
        """Wait until every server has listed its tools or has had its time for that."""

    async def wait_newer(self, revision: int) -> int:
        """Wait until the listings of servers are newer than this revision; returns the present one."""


class Search(Protocol):
    async def search(
        self, caller: Caller, query: str, detail_level: str, server: str | None, limit: int, effect: str | None, /
    ) -> SearchResults: ...


class Skills(Protocol):
    def entries(self, owner: Owner) -> Sequence[Skill]: ...
    def waiting(self, owner: Owner) -> Mapping[str, str]:
        """Those that the person has to accept first, each with a line that says so."""

    def source(self, owner: Owner, name: str) -> Any:
        """Its `text`, the `note` for its head, and the `sources` of what it was made from."""


class Workflows(Protocol):
    def entries(self) -> Sequence[Skill]: ...
    def text(self, name: str) -> str: ...


class Sources(Protocol):
    async def take_over(self, caller: Caller, sources: Any, /) -> None:
        """The model has read what came from these."""


class Privacy(Protocol):
    async def refresh(self, principal: Principal) -> None:
        """Have the redactor of a principal know what other products have found."""


class Reruns(Protocol):
    """Both are given a limit of time as `ExecutionService.start` is, and raise `MetaToolError` if the program can't run
    again."""

    async def resume(
        self, execution_id: ExecutionId, context: Caller, timeout_s: float | None, host: HostInput, /
    ) -> Execution:
        """Go on with an execution that waits or did not end."""

    async def apply(
        self, execution_id: ExecutionId, context: Caller, timeout_s: float | None, host: HostInput, /
    ) -> Execution:
        """Run the program of a dry run for real."""


class Exchanges(Protocol):
    async def take(
        self, tool: str, arguments: Mapping[str, Any], answer: Answer, caller: Caller, offered: list[dict[str, Any]]
    ) -> Answer:
        """Count an answer on its way to the host, which has these definitions of tools."""


class DirectTools(Protocol):
    """Tools of servers that the host calls without a program."""

    servers: frozenset[str]
    """Raw names of the servers that may have some."""

    def definitions(self) -> list[dict[str, Any]]: ...
    def server_of(self, definition: Mapping[str, Any]) -> str | None:
        """The raw name of its server; None for a tool of ours."""

    async def call(self, definition: Mapping[str, Any], arguments: dict[str, Any], context: ToolContext) -> Answer: ...


class Prompts(Protocol):
    def definitions(self) -> list[dict[str, Any]]: ...
    async def get(self, name: str, arguments: dict[str, str], context: ToolContext) -> dict[str, Any]: ...
