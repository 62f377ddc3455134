"""Tells upstreams that have the roots of a host that these have changed, with the roots that they then ask for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio

from codemode_server.config.live import LiveConfig
from codemode_server.domain.input_requests import InputRefused, InputRequest
from codemode_server.gateway.forwarded_input import returned_answer

logger = logging.getLogger(__name__)

_ANSWER_S = 30.0
AskRoots = Callable[[], Awaitable[dict[str, Any]]]
"""Asks the host for its roots; raises `InputRefused`."""


class HoldsRoots(Protocol):
    """What knows which upstreams have whose roots; the pool of upstreams does."""

    def servers_with_roots(self, session_id: str) -> list[str]:
        """As `UpstreamPool.servers_with_roots`."""

    async def change_roots(self, server: str, answer: dict[str, Any]) -> None:
        """As `UpstreamPool.change_roots`."""


class ChangedRoots:
    """Built once."""

    def __init__(self, upstreams: HoldsRoots, config: LiveConfig) -> None:
        self._upstreams = upstreams
        self._config = config
        self._under_way: set[str] = set()
        self._again: set[str] = set()

    async def forward(self, session_id: str, ask: AskRoots) -> None:
        """The host of this session says that its roots have changed; changes that come meanwhile are one."""
        if session_id in self._under_way:
            self._again.add(session_id)
            return
        self._under_way.add(session_id)
        try:
            await self._forward(session_id, ask)
            while session_id in self._again:
                self._again.discard(session_id)
                await self._forward(session_id, ask)
        finally:
            self._under_way.discard(session_id)
            self._again.discard(session_id)

    async def _forward(self, session_id: str, ask: AskRoots) -> None:
        settings = self._config.settings.servers
        having = self._upstreams.servers_with_roots(session_id)
        names = [name for name in having if name in settings and settings[name].roots == "forward"]
        if not names:
            return
        answer: dict[str, Any] | None = None
        try:
            with anyio.move_on_after(_ANSWER_S):
                answer = returned_answer(InputRequest("roots/list", {}), await ask(), self._config.redactor)
        except InputRefused as refusal:
            logger.info("the changed roots of a host are not known: %s", refusal)
        for name in names if answer is not None else ():
            await self._upstreams.change_roots(name, answer or {})
