"""Offers the host's user to sign in to a server that a program needs, by URL elicitation.

Only the user opens the address, which is that of the server's authorization server; the program and the model take no
part in it. Without an answer, programs go on with the error that names the command.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.forwarded_input import checked_url
from codemode_server.catalog.catalog import Server
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.domain.tools import UpstreamState

if TYPE_CHECKING:
    from codemode_server.upstreams.auth.redirect_listener import RedirectListener
    from codemode_server.upstreams.pool import UpstreamPool

logger = logging.getLogger(__name__)

_PAUSE_S = 600.0
"""After an offer without a sign-in, the same server is not offered again for so long."""


class OfferOutcome(Enum):
    """How an offer ended. The values are for records."""

    SIGNED_IN = "accept"
    DECLINED = "decline"
    UNANSWERED = "cancel"
    FAILED = "refused"
    NONE = "none"
    """There was no offer: the host can't show one, or the user did not want the last one."""

    @property
    def remark(self) -> str:
        """For the model, after the error of the call."""
        return _REMARKS.get(self, "")


_REMARKS = {
    OfferOutcome.DECLINED: " (the user was asked to sign in, and declined)",
    OfferOutcome.UNANSWERED: " (the user was asked to sign in, and did not finish it)",
    OfferOutcome.FAILED: " (a sign-in was tried, and failed)",
}


class _NotAccepted(CodemodeError):
    """Raised when the user does not open the address."""


class SignInOffers:
    """One offer for a server at a time; all calls that wait for it share its outcome."""

    def __init__(
        self, upstreams: UpstreamPool, config: LiveConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstreams = upstreams
        self._config = config
        self._clock = clock
        self._locks: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._refused_at: dict[str, float] = {}

    async def offer(self, calls: ExecutionCalls, server: str) -> OfferOutcome:
        """Offer it to the host of these calls, within the time that a program may wait for answers; `server` is the
        raw name of a server that needs a sign-in."""
        if not self._can_offer(calls, server):
            return OfferOutcome.NONE
        outcome = OfferOutcome.UNANSWERED
        try:
            with calls.wait_for_person(self._config.settings.limits.input_seconds):
                async with self._locks[server]:
                    # Another call may have been answered meanwhile.
                    outcome = await self._offer(calls, server) if self._can_offer(calls, server) else OfferOutcome.NONE
        finally:
            # Also for a program that ends while the user is asked: the next one would ask again.
            if outcome is OfferOutcome.SIGNED_IN:
                self._refused_at.pop(server, None)
            elif outcome is not OfferOutcome.NONE:
                self._refused_at[server] = self._clock()
        return outcome

    async def offer_for(self, calls: ExecutionCalls, servers: Iterable[Server]) -> bool:
        """Offer it for those of these servers that need it, until one is not signed in to. Returns whether one is
        signed in to now."""
        signed_in = False
        for server in servers:
            if server.state is not UpstreamState.SIGNED_OUT:
                continue
            outcome = await self.offer(calls, server.raw_name)
            if outcome is not OfferOutcome.SIGNED_IN:
                if outcome.remark:
                    calls.messages.append(f"servers.{server.name}:{outcome.remark}")
                break
            signed_in = True
        return signed_in

    def _can_offer(self, calls: ExecutionCalls, server: str) -> bool:
        settings = self._config.settings.servers.get(server)
        if not calls.caller.is_local:
            return False  # the redirect comes to this machine, and only its user can open the address there
        if settings is None or calls.input_requests >= self._config.settings.limits.input_requests:
            return False
        is_paused = self._clock() - self._refused_at.get(server, -math.inf) < _PAUSE_S
        return not is_paused and Feature.URL in settings.answered_features(calls.host.features)

    async def _offer(self, calls: ExecutionCalls, server: str) -> OfferOutcome:
        async def show(address: str, listener: RedirectListener) -> None:
            calls.input_requests += 1
            await _ask(calls, self._request(server, address), listener)

        try:
            await self._upstreams.sign_in(server, show)
        except _NotAccepted as refusal:
            return OfferOutcome(str(refusal))
        except (CodemodeError, InputRefused, OSError) as error:
            logger.warning("server %r: the offered sign-in failed: %s", server, error)
            return OfferOutcome.FAILED
        logger.info("server %r: the user has signed in", server)
        return OfferOutcome.SIGNED_IN

    def _request(self, server: str, address: str) -> InputRequest:
        url = checked_url(address)
        where = urlsplit(self._config.settings.servers[server].url or "").hostname
        message = (
            f"codemode-server: a program needs the MCP server {server!r} ({where}), which asks for a sign-in. The "
            f"address opens {urlsplit(url).hostname}. If you sign in there, programs can use this server as you. "
            "Decline if you did not expect this."
        )
        params = {"mode": "url", "message": message, "url": url, "elicitationId": secrets.token_hex(8)}
        return InputRequest("elicitation/create", params)


async def _ask(calls: ExecutionCalls, request: InputRequest, listener: RedirectListener) -> None:
    """Return once the user has accepted, or the redirect has come: a host may answer only when all is done."""
    answer: dict[str, Any] = {}
    async with anyio.create_task_group() as tasks:

        async def wait_for_redirect() -> None:
            await listener.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(wait_for_redirect)
        try:
            answer = await calls.host.ask(request)
        except InputRefused as refusal:
            logger.info("the host did not show a sign-in: %s", refusal)
        tasks.cancel_scope.cancel()
    if listener.has_redirect or answer.get("action") == "accept":
        return
    raise _NotAccepted("decline" if answer.get("action") == "decline" else "cancel")
