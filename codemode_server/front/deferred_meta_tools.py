"""Meta-tools for the time while the product is still being built: a call waits until it is ready."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents

from codemode_server.domain.principals import Session
from codemode_server.front.server import MetaTools
from codemode_server.front.tools.registry import Answer, MetaToolSpec, Progress, ToolArguments


class DeferredMetaTools:
    """Implements `front.server.MetaTools` by waiting for another implementation and delegating to it."""

    def __init__(self, definitions: list[dict[str, Any]] | None = None) -> None:
        """`definitions`: the answer to `tools/list`, if it is fixed already (`Opening.definitions`)."""
        self._definitions = definitions
        self._tools: MetaTools | None = None
        self._known = anyio.Event()

    def set_target(self, tools: MetaTools) -> None:
        """Delegate to `tools` from now on; they may be replaced later."""
        self._tools = tools
        self._known.set()

    async def _there(self) -> MetaTools:
        await self._known.wait()
        assert self._tools is not None  # noqa: S101 - `set_target` has been called
        return self._tools

    async def definitions(self, session: Session) -> list[dict[str, Any]]:
        return self._definitions or await (await self._there()).definitions(session)

    async def has_structured_content(self) -> bool:
        return await (await self._there()).has_structured_content()

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, progress: Progress
    ) -> Answer:
        return await (await self._there()).call(spec, arguments, session, progress)

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        return await (await self._there()).read_resource(uri, session)
