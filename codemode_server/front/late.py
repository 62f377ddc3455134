"""The meta-tools of a product that is still being built: a call waits for it, or is told why there is none."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents

from codemode_server.errors import CodemodeError
from codemode_server.front.server import MetaTools, ProgramAnswer, Progress
from codemode_server.model import Session


class LateTools:
    """Implements `front.server.MetaTools` by another one that comes later."""

    def __init__(self) -> None:
        self._tools: MetaTools | None = None
        self._error: CodemodeError | None = None
        self._known = anyio.Event()

    def be(self, tools: MetaTools) -> None:
        """Hand everything on to `tools` from now on."""
        self._tools = tools
        self._known.set()

    def fail(self, error: CodemodeError) -> None:
        """Answer everything with `error`."""
        self._error = error
        self._known.set()

    async def _there(self) -> MetaTools:
        await self._known.wait()
        if self._tools is None or self._error is not None:
            raise self._error or CodemodeError("codemode-server is not there")
        return self._tools

    async def list_dir(self, path: str) -> tuple[str, dict[str, Any]]:
        return await (await self._there()).list_dir(path)

    async def read_tool(self, path: str) -> tuple[str, dict[str, Any]]:
        return await (await self._there()).read_tool(path)

    async def search_tools(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None, session: Session
    ) -> tuple[str, dict[str, Any]]:
        return await (await self._there()).search_tools(query, detail_level, server, limit, effect, session)

    async def execute_code(
        self, code: str, timeout_s: float | None, session: Session, progress: Progress
    ) -> ProgramAnswer:
        return await (await self._there()).execute_code(code, timeout_s, session, progress)

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        return await (await self._there()).read_resource(uri, session)
