"""An upstream that is an object of this process, for tests and for programs that embed the product."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from codemode_server.setting_types import Section
from codemode_server.upstreams.transports.registry import TransportSpec

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


class MemorySettings(Section):
    """The settings of a server in this process; `codemode_server.testing` makes them."""

    server_object: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    """An `MCPServer`, or the `Server` of mcp's low-level interface."""

    @field_validator("server_object")
    @classmethod
    def _is_no_text(cls, server: Any) -> Any:
        if isinstance(server, str | int | float | list | dict):
            raise ValueError("can't be set in a file; it is for programs that embed codemode-server")  # noqa: TRY004
        return server


class MemoryTransport:
    """One session with a server of this process."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Serve the session in a task until this is left."""
        from mcp.client._memory import InMemoryTransport

        async with InMemoryTransport(self._server) as streams:
            yield streams

    def why_ended(self) -> str | None:
        return None

    def why_unanswered(self) -> str:
        return ""

    def last_words(self) -> str:
        return ""

    def why_not_connected(self, cause: BaseException, refused: list[str]) -> str | None:
        return None


TRANSPORT = TransportSpec(
    selector="server_object",
    meaning="a server of this process",
    settings_model=MemorySettings,
    connect=lambda settings, _: MemoryTransport(settings.server_object),
    identity=lambda it: [it.server_object.name],
    is_in_files=False,
)
