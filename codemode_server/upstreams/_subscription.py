"""The stream on which a server of protocol 2026-07-28 announces that its tools have changed."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import anyio

from codemode_server.upstreams._connection_deps import Timings
from codemode_server.upstreams._link import Link

logger = logging.getLogger(__name__)


async def listen_for_changes(
    link: Link, name: str, subscribed: anyio.Event, on_change: Callable[[], None], timings: Timings
) -> None:
    """Keep the stream open; returns if the server has none.

    Sets `subscribed` once the stream is open, or known not to exist. If it was set by then, because its waiter gave up
    and listed the tools, `on_change` is called: a change before the stream opened would be missed.
    """
    from mcp.client.subscriptions import SubscriptionLost, listen
    from mcp.shared.exceptions import MCPError

    pause_s = timings.backoff_first_s

    def set_known() -> None:
        if subscribed.is_set():
            on_change()
        subscribed.set()

    while True:
        try:
            with anyio.move_on_after(timings.list_s) as patience:
                async with listen(link.session, tools_list_changed=True) as changes:
                    patience.deadline = math.inf
                    set_known()
                    async for _ in changes:
                        on_change()
            if patience.cancelled_caught:
                return
        except MCPError as error:
            logger.debug("upstream %r does not announce changed tools: %s", name, error)
            set_known()
            return
        except SubscriptionLost:
            logger.debug("upstream %r ended its stream of changes", name)
        subscribed.set()
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, timings.backoff_most_s)
