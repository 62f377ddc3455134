"""Has the host's user open the addresses without which an upstream refuses a call (error -32042).

They are forwarded by URL elicitation, like those that an upstream asks for during a call. Calls of one execution that
are refused at the same time ask once. Where the host can't show an address, it is in the log, and the program's error
names its host.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import AddressRequired
from codemode_server.domain.input_requests import Feature, InputProvider, InputRefused, InputRequest
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.forwarded_input import checked_url

logger = logging.getLogger(__name__)


class ReportsCompletion(Protocol):
    """What knows of completed elicitations; the pool of upstreams does."""

    async def wait_completed(self, server: str, elicitation_ids: frozenset[str]) -> None:
        """As `UpstreamPool.wait_completed`."""


class RequiredAddresses:
    """Built once. What the user answered in an execution is in its `ExecutionCalls`."""

    def __init__(self, upstreams: ReportsCompletion, config: LiveConfig) -> None:
        self._upstreams = upstreams
        self._config = config

    async def open(
        self, calls: ExecutionCalls, provider: InputProvider, server: str, required: AddressRequired
    ) -> bool:
        """Return once the call may be repeated: the user has accepted to open the addresses, and the upstream has
        reported that they are done with, or there was no report in time. False: that was during another call.

        Raises:
            AddressRequired: the user does not open them, or can't be asked; the message says which.
        """
        found, hosts = self._checked(required)
        if Feature.URL not in provider.features:
            urls = ", ".join(params["url"] for params in found)
            logger.warning("server %r needs you to open this address before it goes on: %s", server, urls)
            raise AddressRequired(
                f"{required}; the user has to open the address at {hosts}, which this host can't show: it is in the "
                "log of codemode-server. Ask the user to open it, and try again then"
            )
        opened = calls.addresses[server]
        rounds = opened.rounds
        async with _turn(calls, opened.lock):
            if opened.is_refused:
                raise AddressRequired(f"{required}; the user was asked to open {hosts}, and did not")
            if opened.rounds > rounds:
                return False
            try:
                await self._ask(calls, provider, required, found, hosts)
            except AddressRequired:
                opened.is_refused = True
                raise
            await self._wait_completed(calls, server, found)
            opened.rounds += 1
        return True

    async def _ask(
        self,
        calls: ExecutionCalls,
        provider: InputProvider,
        required: AddressRequired,
        requests: list[dict[str, Any]],
        hosts: str,
    ) -> None:
        for params in requests:
            try:
                answer = await provider.answer(InputRequest("elicitation/create", params))
            except InputRefused as refusal:
                raise AddressRequired(f"{required}; the user was not asked to open {hosts}: {refusal}") from refusal
            if answer.get("action") != "accept":
                did = "declined" if answer.get("action") == "decline" else "did not answer"
                raise AddressRequired(f"{required}; the user was asked to open {hosts}, and {did}")

    async def _wait_completed(self, calls: ExecutionCalls, server: str, requests: list[dict[str, Any]]) -> None:
        ids = frozenset(params["elicitationId"] for params in requests if params["elicitationId"])
        with calls.wait_for_person(self._config.settings.limits.input_seconds):
            await self._upstreams.wait_completed(server, ids)

    def _checked(self, required: AddressRequired) -> tuple[list[dict[str, Any]], str]:
        """The requests as elicitations by URL, and the hosts of their addresses.

        Raises:
            AddressRequired: no person should open one of them.
        """
        try:
            urls = [checked_url(params.get("url")) for params in required.requests]
        except InputRefused as refusal:
            raise AddressRequired(f"{required}; the user was not asked: {refusal}") from refusal
        found = [
            {**params, "mode": "url", "url": url, "elicitationId": str(params.get("elicitationId") or "")}
            for params, url in zip(required.requests, urls, strict=True)
        ]
        return found, " and ".join(dict.fromkeys(str(urlsplit(url).hostname) for url in urls))


@asynccontextmanager
async def _turn(calls: ExecutionCalls, lock: anyio.Lock) -> AsyncIterator[None]:
    """Hold the lock. Waiting for it is waiting for the user."""
    with calls.host_wait.one_more():
        await lock.acquire()
    try:
        yield
    finally:
        lock.release()
