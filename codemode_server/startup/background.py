"""What a product does beside requests: its start once the host has its first answer, and what it stores and removes."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.config.live import LiveConfig
from codemode_server.domain.tools import UpstreamListing
from codemode_server.executions.workspace import Workspace
from codemode_server.sandbox.backend_selection import Choice, choose
from codemode_server.storage.server_states import RunningProduct, ServerState
from codemode_server.support import temporary
from codemode_server.support.text import escaped
from codemode_server.support.trace_provider import span_around

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)

_AFTER_HANDSHAKE_SECONDS = 0.05
"""Delay between the first answer to the host and the start of processes, so that the answer is sent first."""
_MAX_ERROR_CHARACTERS = 2_000
_TRACED_SECONDS = 60.0
"""Longest span of the start of the servers."""
_REPORT_SECONDS = 0.5
"""Pause between two reports of what state the servers are in."""
_SAVE_SECONDS, _RETRY_SAVE_SECONDS = 1.0, 30.0


class SandboxStart:
    """Chooses the sandbox, and says what is being done."""

    def __init__(self, config: LiveConfig, workspace: Workspace) -> None:
        self._config = config
        self._workspace = workspace
        self.step = ""
        """The current step, which programs that wait report to the host; empty when the sandbox is ready."""

    async def choose(self) -> Choice:
        settings = self._config.settings
        try:
            return await choose(settings.sandbox, settings.limits, self._workspace.make(), self._announce)
        finally:
            self.step = ""

    def _announce(self, line: str) -> None:
        self.step = line
        print(f"codemode-server: {escaped(line)}", file=sys.stderr)


async def run(app: App) -> None:
    """Until cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_start, app)
        tasks.start_soon(_save_learned, app)
        tasks.start_soon(app.search.keep_indexed)
        tasks.start_soon(app.stores.keep_lease)
        tasks.start_soon(_report_servers, app)


async def _start(app: App) -> None:
    await app.tools.connected.wait()
    app.tools.expect_tools()
    await anyio.sleep(_AFTER_HANDSHAKE_SECONDS)
    app.sandbox.start_soon()
    async with anyio.create_task_group() as tasks:
        if app.telemetry is not None:
            await app.telemetry.start()  # before the servers, whose start is traced
            tasks.start_soon(app.telemetry.serve)
        if app.has_upstreams:
            tasks.start_soon(_connect, app)
        if app.privacy is not None:
            tasks.start_soon(app.privacy.load)
        tasks.start_soon(app.stores.upkeep.run)
        await anyio.to_thread.run_sync(_clean_leftovers, app, abandon_on_cancel=True)
        await app.search.stack.keep()


async def _connect(app: App) -> None:
    with span_around("start", is_wanted=app.config.sends_trace_context):
        app.pool.connect()
        await app.pool.wait_settled(_TRACED_SECONDS)


def _clean_leftovers(app: App) -> None:
    is_ending = app.is_ending.is_set
    if count := app.artifacts.clean_leftovers(is_ending) + temporary.sweep(is_ending):
        logger.info("removed %d folders of earlier runs that were killed", count)


async def _save_learned(app: App) -> None:
    while True:
        await anyio.sleep(_SAVE_SECONDS)
        stored = [await one.save() for one in app.saved]
        if not all(stored):
            await anyio.sleep(_RETRY_SAVE_SECONDS)


async def _report_servers(app: App) -> None:
    """Tell commands and pages of other processes which servers are connected."""
    await app.tools.connected.wait()
    started_at, states = time.time(), dict[str, ServerState]()
    while True:
        revision = app.tools.revision
        states = {it.name: _state(it, states.get(it.name), app.config) for it in app.pool.listings()}
        path = app.loaded.path
        app.stores.server_states.report(
            RunningProduct("" if path is None else str(path), os.getpid(), started_at, states)
        )
        await anyio.sleep(_REPORT_SECONDS)
        await app.tools.wait_newer(revision)


def _state(listing: UpstreamListing, before: ServerState | None, config: LiveConfig) -> ServerState:
    text = config.logged(listing.name, listing.error_for_person or listing.error or "")  # it is stored, as a log is
    error = config.redactor_of_all.head(text, _MAX_ERROR_CHARACTERS)
    is_same = before is not None and before.state == listing.state.value
    return ServerState(listing.state.value, before.since if before is not None and is_same else time.time(), error)
