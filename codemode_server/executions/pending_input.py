"""The input requests of one execution that wait for its host.

Calls put them here; whoever serves the host takes them and brings the answers. A host of protocol 2026-07-28 gets them
as an answer to its tool call, so between two of its requests nobody serves it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from codemode_server.change_signal import ChangeSignal
from codemode_server.domain.input_requests import Feature, InputRequest


@dataclass(slots=True)
class _Pending:
    request: InputRequest
    is_settled: anyio.Event = field(default_factory=anyio.Event)
    answer: dict[str, Any] = field(default_factory=dict)


class PendingInput:
    """Implements `HostInput` for one execution."""

    def __init__(self, features: frozenset[Feature] = frozenset()) -> None:
        self.features = features
        self._waiting: dict[str, _Pending] = {}
        self._has_come = ChangeSignal()

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        key, pending = secrets.token_hex(8), _Pending(request)
        self._waiting[key] = pending
        self._has_come.notify()
        try:
            await pending.is_settled.wait()
        finally:
            self._waiting.pop(key, None)
        return pending.answer

    @property
    def waiting(self) -> Mapping[str, InputRequest]:
        """The requests without an answer, by their keys."""
        return {key: pending.request for key, pending in self._waiting.items() if not pending.is_settled.is_set()}

    async def wait_for_request(self) -> None:
        """Wait until there is a request without an answer."""
        while not self.waiting:
            await self._has_come.wait()

    def settle(self, key: str, answer: dict[str, Any]) -> None:
        """Pass on the host's answer; one to a request that is gone is dropped."""
        if (pending := self._waiting.get(key)) is not None:
            pending.answer = answer
            pending.is_settled.set()
