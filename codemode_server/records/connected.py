"""A product without a host, to see how its servers answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from codemode_server.app import App
from codemode_server.config import LoadedSettings


@asynccontextmanager
async def connected(
    loaded: LoadedSettings, wait_seconds: float, on_open: Callable[[App], None] = lambda _: None
) -> AsyncIterator[App]:
    """A product whose upstreams are ready, have failed, or took longer than this; `on_open` is called before they are
    started."""
    async with App.open(loaded) as app:
        on_open(app)
        app.pool.connect()
        if not await app.pool.wait_settled(wait_seconds):
            app.pool.explain_delays()
        await app.tools.prepare()
        yield app
