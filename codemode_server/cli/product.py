"""A product for a command: without a host, with its upstreams connected."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from codemode_server import logs
from codemode_server.app import App
from codemode_server.config import LoadedSettings

logger = logging.getLogger(__name__)


@asynccontextmanager
async def inspected(loaded: LoadedSettings, wait_seconds: float) -> AsyncIterator[App]:
    """A product without a host, whose upstreams are ready or have failed."""
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        for line in loaded.other_messages:  # the catalog has the errors of single servers
            logger.warning("%s", line)
        app.pool.connect()
        if not await app.pool.wait_settled(wait_seconds):
            app.pool.explain_delays()
        await app.tools.prepare()
        yield app
