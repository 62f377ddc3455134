"""The stream on which a server of protocol 2026-07-28 announces that its tools, resources or prompts have changed."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial

import anyio

from codemode_server.upstreams._link import Link
from codemode_server.upstreams.connection_deps import Timings

logger = logging.getLogger(__name__)


async def listen_for_changes(
    link: Link, name: str, subscribed: anyio.Event, on_change: Callable[[bool], None], timings: Timings
) -> None:
    """Keep the stream open; returns if the server has none.

    Sets `subscribed` once the stream is open, or known not to exist. If it was set by then, because its waiter gave up
    and listed the tools, `on_change` is called: a change before the stream opened would be missed. Its argument says
    whether tools have changed, and not resources or prompts.
    """
    from mcp.client.subscriptions import SubscriptionLost, ToolsListChanged, listen
    from mcp.shared.exceptions import MCPError

    pause_s = timings.backoff_first_s

    def set_known() -> None:
        if subscribed.is_set():
            on_change(True)
            on_change(False)
        subscribed.set()

    declared = link.session.server_capabilities
    listens = partial(
        listen,
        link.session,
        tools_list_changed=True,
        resources_list_changed=declared is not None and declared.resources is not None,
        prompts_list_changed=declared is not None and declared.prompts is not None,
    )
    while True:
        try:
            with anyio.move_on_after(timings.list_s) as patience:
                async with listens() as changes:
                    patience.deadline = math.inf
                    set_known()
                    async for change in changes:
                        on_change(isinstance(change, ToolsListChanged))
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
