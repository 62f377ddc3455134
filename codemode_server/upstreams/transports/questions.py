"""A server of this process that asks the user: its one tool shows a form in the host, as any server may."""

from __future__ import annotations

from typing import Any, Literal

from codemode_server.setting_types import Section
from codemode_server.upstreams.transports.memory import MemoryTransport
from codemode_server.upstreams.transports.registry import TransportSpec


class QuestionsSettings(Section):
    """The settings of the server that asks the user."""

    questions: Literal[True] | None = None
    """`true`: not a server of its own but a tool `ask`, by which programs and workflows ask you questions in the host.
    Workflows expect it under the name `person`."""


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
