"""A server of this process that asks the user: its one tool shows a form in the host, as any server may."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from codemode_server.support.setting_types import Section
from codemode_server.upstreams.transports.registry import Transport, TransportSpec

if TYPE_CHECKING:
    from codemode_server.upstreams.session import Channel


class QuestionsSettings(Section):
    """The settings of the server that asks the user."""

    questions: Literal[True] | None = None
    """`true`: not a server but a tool `ask`, by which programs and workflows ask you questions in the host.
    Workflows expect it under the name `person`."""


class MemoryTransport(Transport):
    """One session with a server of this process."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Channel]:
        """Serve the session in a task until this is left."""
        from mcp.client._memory import InMemoryTransport

        from codemode_server.upstreams.stream_channel import StreamChannel

        async with InMemoryTransport(self._server) as streams:
            yield StreamChannel(streams)


def _connect(_settings: QuestionsSettings, _deps: Any) -> MemoryTransport:
    from codemode_server.upstreams.questions_server import questions_server

    return MemoryTransport(questions_server())


TRANSPORT = TransportSpec(
    selector="questions",
    meaning="a tool that asks the user",
    settings_model=QuestionsSettings,
    connect=_connect,
    identity=lambda _: ["questions"],
    is_own=True,
)
