"""Keeps the list of a connection's resources and prompts up to date, beside that of its tools."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from codemode_server.upstreams._connection_deps import Timings
from codemode_server.upstreams._link import Link
from codemode_server.upstreams._offers import OffersFound, Redact, list_offers

logger = logging.getLogger(__name__)

_PAUSE_PER_LISTING = 20
"""The pause between two listings, as a multiple of the time that one took."""
_MAX_PAUSE_S = 10.0


class OfferUpkeep:
    """Lists what one link offers, first at once and then after each change."""

    def __init__(self, name: str, timings: Timings) -> None:
        self._name = name
        self._timings = timings
        self._changed = anyio.Event()
        self._first = anyio.Event()

    def note_change(self) -> None:
        self._changed.set()

    async def wait_first(self) -> None:
        """Wait, a bounded time, for the first listing: the tools of a server need not wait for its resources."""
        with anyio.move_on_after(self._timings.offers_s):
            await self._first.wait()

    async def run(
        self, link: Link, redact: Callable[[], Redact], take: Callable[[OffersFound], Awaitable[None]]
    ) -> None:
        """List now and after each change, until cancelled; `take` is given each listing."""
        from mcp.shared.exceptions import MCPError

        while True:
            self._changed = anyio.Event()
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._timings.list_s):
                    found = await list_offers(link, redact())
                await take(found)
            except (MCPError, TimeoutError) as error:
                logger.info("upstream %r: its resources and prompts can't be listed: %s", self._name, error)
            self._first.set()
            pause_s = min(_MAX_PAUSE_S, _PAUSE_PER_LISTING * (anyio.current_time() - started))
            await self._changed.wait()
            # A server that notifies without end must not take all of our time.
            await anyio.sleep(max(self._timings.debounce_s, pause_s))
