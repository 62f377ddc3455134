"""Follows what a server offers: the stream on which it announces changes, and the pace at which it is listed again."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from codemode_server.upstreams.answers import ConnectionEnded, RequestFailed
from codemode_server.upstreams.connection_deps import Timings

if TYPE_CHECKING:
    from codemode_server.upstreams.connection import Connection
    from codemode_server.upstreams.session import Session

logger = logging.getLogger(__name__)

_PAUSE_PER_LISTING = 20
"""The pause between two listings of changed tools, as a multiple of the time that one took."""
_MAX_PAUSE_S = 10.0


class Relisting:
    """Lists again after each change, at a pace: a server that notifies without end must not take all of our time."""

    def __init__(self, what: str, timings: Timings) -> None:
        self._what = what
        self._timings = timings
        self.reset()

    def reset(self) -> None:
        """Begin anew with another session."""
        self.changed = anyio.Event()
        """To be set when the server says that something has changed."""
        self.listed = anyio.Event()
        """Set after the first listing."""

    async def run(
        self, list_again: Callable[[], Awaitable[None]], logged: Callable[[str], str], *, at_once: bool = False
    ) -> None:
        """Call `list_again` after each change, with `at_once` also now, until cancelled; its failure is logged, as
        `logged` changes it."""
        not_before = -math.inf
        while True:
            if not at_once:
                await self.changed.wait()
                await anyio.sleep(max(self._timings.debounce_s, not_before - anyio.current_time()))
            at_once, self.changed = False, anyio.Event()
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._timings.list_s):
                    await list_again()
            except (RequestFailed, TimeoutError) as error:
                logger.info("%s can't be listed: %s", self._what, logged(str(error)))
            self.listed.set()
            ended = anyio.current_time()
            not_before = ended + min(_MAX_PAUSE_S, _PAUSE_PER_LISTING * (ended - started))


async def listen_for_changes(session: Session, connection: Connection, subscribed: anyio.Event) -> None:
    """Hold the stream open on which a server of protocol 2026-07-28 announces changes to the connection; returns
    if the server has none.

    Sets `subscribed` once the stream is open, or known not to exist. If it was set by then, because its waiter gave up
    and listed the tools, everything counts as changed: a change before the stream opened would be missed."""
    timings = connection.deps.timings
    pause_s = timings.backoff_first_s

    def note_known() -> None:
        if subscribed.is_set():
            connection.note_change(True)
            connection.note_change(False)
        subscribed.set()

    while await _listen_once(session, connection.name, note_known, timings.list_s):
        subscribed.set()
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, timings.backoff_most_s)


async def _listen_once(session: Session, name: str, note_known: Callable[[], None], opens_s: float) -> bool:
    """Hold the stream open until it ends; False if the server has none."""
    kinds = {"tools", *(session.server.capabilities & {"resources", "prompts"})}
    with anyio.move_on_after(opens_s) as patience:

        def note_opened() -> None:
            patience.deadline = math.inf
            note_known()

        wanted = {"notifications": {f"{kind}ListChanged": True for kind in kinds}}
        try:
            await session.request("subscriptions/listen", wanted, on_opened=note_opened)
        except RequestFailed as error:
            logger.debug("upstream %r announces no changes: %s", name, error)
            if patience.deadline != math.inf and not isinstance(error, ConnectionEnded):
                note_known()
                return False
        return True
    return False
