"""Upstreams in memory, which answer the gateway as a test says, and note what reached them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from codemode_server.domain.tools import ANY_FORM, ResultForm
from codemode_server.sandbox.contract import Reply

if TYPE_CHECKING:
    from codemode_server.config.live import Caller
    from codemode_server.domain.input_requests import Feature
    from codemode_server.upstreams.progress import CallProgress

READ_RESOURCE, GET_PROMPT = "resources/read", "prompts/get"
"""In place of the name of a tool."""


class MemoryUpstreams:
    """Stands in for `UpstreamPool`. A test that answers otherwise overrides `respond`."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        """What every request is answered with; an exception is raised."""
        self.reached: list[tuple[str, str, dict[str, Any]]] = []
        """Server, tool and arguments of each request, in order."""

    def for_caller(self, caller: Caller, features: frozenset[Feature]) -> Self:
        """The same for everybody."""
        return self

    def turn_to_write(self, server: str) -> None:
        """All writes overlap."""

    async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        """The value of an answer, or the whole `Reply`."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        is_raw: bool = False,
        progress: CallProgress,
        revision: int,
        definition: str = "",
        form: ResultForm = ANY_FORM,
        needs_task: bool = False,
    ) -> Reply:
        reply = await self._reply(server, tool, arguments, progress)
        is_whole = not is_raw or (isinstance(reply.value, dict) and "content" in reply.value)
        return reply if is_whole else Reply({"content": [], "structuredContent": reply.value})

    async def read_resource(self, server: str, uri: str, *, progress: CallProgress, revision: int) -> Reply:
        return await self._reply(server, READ_RESOURCE, {"uri": uri}, progress)

    async def get_prompt(
        self, server: str, name: str, arguments: dict[str, Any], *, progress: CallProgress, revision: int
    ) -> Reply:
        return await self._reply(server, GET_PROMPT, {"name": name, "arguments": arguments}, progress)

    async def _reply(self, server: str, tool: str, arguments: dict[str, Any], progress: CallProgress) -> Reply:
        progress.begin_attempt()
        self.reached.append((server, tool, arguments))
        found = await self.respond(server, tool, arguments)
        return found if isinstance(found, Reply) else Reply(found)
