"""The pages of a server's tools: a list, and for each tool the stub that programs import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.responses import Response

from codemode_server.domain.tools import Effect
from codemode_server.web.ui.server_pages import ShowPage


@dataclass(frozen=True, slots=True)
class ToolLine:
    """One tool in the list of its server."""

    name: str
    key: str
    """`key_of` its raw name."""
    effect: Effect
    summary: str


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of a server, in the order of its listing."""

    server: str
    key: str
    """`key_of` the server's name in the configuration."""
    tools: tuple[ToolLine, ...]
    more: int
    """How many there are beside these."""


@dataclass(frozen=True, slots=True)
class ToolStub:
    """One tool as programs see it."""

    server: str
    key: str
    """`key_of` the server's name in the configuration."""
    title: str
    """`server.tool`, as programs import it."""
    call: str
    """`server/tool`, as rules name it."""
    effect: Effect
    returned: str
    """Where the type of its result comes from."""
    tokens: int
    """What the stub costs a model that reads it."""
    source: str


class ToolRecords(Protocol):
    """Tools as of the present configuration and the last run. Secrets of the configuration are masked already."""

    async def tools(self, key: str) -> ServerTools | None:
        """The tools of a server; None if there is no such server."""

    async def tool(self, key: str, tool_key: str) -> ToolStub | None:
        """One of them; None if there is no such tool."""


class ToolPages:
    """What the site has below `tools`."""

    def __init__(self, records: ToolRecords, page: ShowPage, message: Callable[[int, str, str], Response]) -> None:
        self._records = records
        self._page = page
        self._message = message

    async def shown(self, parts: list[str]) -> Response:
        match parts:
            case [key]:
                if (server := await self._records.tools(key)) is not None:
                    return await self._page("tools", "servers", None, found=server)
            case [key, tool_key]:
                if (tool := await self._records.tool(key, tool_key)) is not None:
                    return await self._page("tool", "servers", None, found=tool)
        return self._message(404, "Nothing here", "There is no such server or tool (any more).")
