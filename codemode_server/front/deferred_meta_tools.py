"""Meta-tools for the time while the product is still being built: a call waits until it is ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import GetPromptResult

from codemode_server.domain.principals import Session
from codemode_server.front.server import MetaTools
from codemode_server.front.tools.registry import Answer, Changed, Host, MetaToolSpec, Progress, ToolArguments
from codemode_server.gateway.completions import Completion


class DeferredMetaTools:
    """Implements `front.server.MetaTools` by waiting for another implementation and delegating to it."""

    def __init__(self, definitions: list[dict[str, Any]] | None = None) -> None:
        """`definitions`: the answer to `tools/list`, if it is fixed already (`Opening.definitions`)."""
        self._definitions = definitions
        self._tools: MetaTools | None = None
        self._known = anyio.Event()
        self._listeners: list[Callable[[Changed], Awaitable[None]]] = []

    def set_target(self, tools: MetaTools) -> None:
        """Delegate to `tools` from now on; they may be replaced later."""
        self._tools = tools
        for listener in self._listeners:
            tools.on_change(listener)
        self._known.set()

    async def _there(self) -> MetaTools:
        await self._known.wait()
        assert self._tools is not None  # noqa: S101 - `set_target` has been called
        return self._tools

    def on_change(self, listener: Callable[[Changed], Awaitable[None]]) -> None:
        self._listeners.append(listener)
        if self._tools is not None:
            self._tools.on_change(listener)

    async def definitions(self, session: Session, given: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        if self._tools is None and self._definitions:
            return self._definitions
        return await (await self._there()).definitions(session, self._definitions)

    async def call_direct(
        self, name: str, arguments: dict[str, Any], session: Session, progress: Progress, host: Host
    ) -> Answer:
        tools = await self._there()
        await tools.definitions(session, self._definitions)
        return await tools.call_direct(name, arguments, session, progress, host)

    async def has_structured_content(self) -> bool:
        return await (await self._there()).has_structured_content()

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, progress: Progress, host: Host
    ) -> Answer:
        return await (await self._there()).call(spec, arguments, session, progress, host)

    async def prompts(self) -> list[dict[str, Any]]:
        return await (await self._there()).prompts()

    async def get_prompt(
        self, name: str, arguments: dict[str, str], session: Session, progress: Progress, host: Host
    ) -> GetPromptResult:
        return await (await self._there()).get_prompt(name, arguments, session, progress, host)

    async def complete_prompt(
        self, name: str, argument: dict[str, str], known: dict[str, str], session: Session
    ) -> Completion:
        return await (await self._there()).complete_prompt(name, argument, known, session)

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        return await (await self._there()).read_resource(uri, session)
