"""What the page of servers shows and does, on the configuration and the stores of the state folder."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import anyio.to_thread
from anyio.abc import TaskGroup

from codemode_server.catalog.catalog import Server
from codemode_server.cli.page_failures import failure_text
from codemode_server.cli.page_products import PageProduct
from codemode_server.cli.permissions import KnownTools
from codemode_server.cli.signing_in import has_sign_in, http_server
from codemode_server.cli.tool_reviews import StoredTools, WaitingTool, accepted_text, digest_of_review
from codemode_server.cli.ui_sign_ins import BegunSignIns
from codemode_server.config import LoadedSettings
from codemode_server.config.description import masked, shown_address
from codemode_server.config.server_switch import switch_servers
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.tools import UpstreamState, definition_text
from codemode_server.gateway.policy.changed_tools import REVIEW
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.tokens import estimate_tokens
from codemode_server.web.ui.server_records import (
    Servers,
    ServerStatus,
    SignInPage,
    ToolChange,
    ToolReview,
    key_of,
)

_MAX_LINES = 5_000
"""Lines of a difference in a page; a longer one is reviewed at a terminal."""


class StoredServers:
    """Implements `web.ui.server_records.ServerRecords` for the local principal. Checks run in the task group."""

    def __init__(self, product: PageProduct, database: Database, thread: DatabaseThread, tasks: TaskGroup) -> None:
        """`database` reads, `thread` writes."""
        self._product = product
        self._database = database
        self._thread = thread
        self._tasks = tasks
        self._checked: dict[str, ServerStatus] = {}
        """By key."""
        self._checked_at: float | None = None
        self._check_problem: str | None = None
        self._is_checking = False
        self._done = ""
        self._sign_ins = BegunSignIns(tasks, self._product.usable, lambda name: self._forget(key_of(name)))

    async def servers(self) -> Servers:
        if self._check_problem is not None and not self._is_checking:
            problem, self._check_problem = self._check_problem, None
            raise CodemodeError(problem)
        found = await anyio.to_thread.run_sync(self._last_known)
        merged = tuple(_newest(it, self._checked.get(it.key)) for it in found)
        return Servers(merged, self._checked_at, self._is_checking, self._done)

    def check(self) -> None:
        if not self._is_checking:
            self._is_checking = True
            self._tasks.start_soon(self._check)

    async def _check(self) -> None:
        try:
            async with self._product.inspected() as app:
                mask = app.config.redactor.text
                self._checked = {it.key: it for it in (_status(it, mask) for it in app.catalog().servers)}
                self._checked_at = time.time()
        except Exception as error:  # noqa: BLE001 - what a server answers must not end the pages
            self._check_problem = failure_text(error, "the check of the servers", self._product.redactor)
        finally:
            self._is_checking = False

    async def switch(self, key: str, *, is_enabled: bool) -> None:
        self._done = await anyio.to_thread.run_sync(partial(self._switch, key, is_enabled=is_enabled))
        self._forget(key)

    def _switch(self, key: str, *, is_enabled: bool) -> str:
        place = self._product.loaded.place
        if place is None:
            raise CodemodeError("there is no configuration to edit; `codemode-server init` writes a first one")
        loaded = self._product.present()
        switched = switch_servers(place, [_name_of(loaded, key)], is_enabled=is_enabled)
        return masked("; ".join(filter(None, [switched.text, switched.trust_needed])), loaded)

    async def review(self, key: str, tool_key: str) -> ToolReview | None:
        return await anyio.to_thread.run_sync(self._review, key, tool_key)

    def _review(self, key: str, tool_key: str) -> ToolReview | None:
        loaded = self._product.present()
        shown = _of_tool(self._tools(loaded).waiting(None), key, tool_key)
        if not shown:
            return None
        is_whole = all(it.change.lines for it in shown) and sum(len(it.change.lines) for it in shown) <= _MAX_LINES
        changes = tuple(_change(it, it.change.lines if is_whole else it.change.shortened(), loaded) for it in shown)
        name = masked(shown[0].name, loaded)
        terminal = "" if is_whole else f"{REVIEW} --accept {shlex.quote(name)}"
        return ToolReview(changes, digest_of_review(shown), terminal)

    async def accept(self, key: str, tool_key: str, digest: str) -> bool:
        loaded = await anyio.to_thread.run_sync(self._product.present)
        tools = self._tools(loaded)
        shown = _of_tool(await anyio.to_thread.run_sync(tools.waiting, None), key, tool_key)
        if not shown or digest_of_review(shown) != digest:
            return False
        await tools.accept(shown)
        self._done = masked(accepted_text(shown), loaded)
        return True

    async def sign_in(self, key: str) -> SignInPage:
        loaded = await anyio.to_thread.run_sync(self._product.present)
        name = _name_of(loaded, key)
        mask = partial(masked, loaded=loaded)
        url = shown_address(http_server(loaded, name).url or "", loaded)
        return SignInPage(mask(name), mask(url), self._sign_ins.state(name))

    async def begin_sign_in(self, key: str) -> None:
        self._sign_ins.begin(_name_of(await anyio.to_thread.run_sync(self._product.present), key))

    async def cancel_sign_in(self, key: str) -> None:
        self._sign_ins.cancel(_name_of(await anyio.to_thread.run_sync(self._product.present), key))

    def _forget(self, key: str) -> None:
        """What an earlier check found of a server is not so any more."""
        self._checked.pop(key, None)

    def _tools(self, loaded: LoadedSettings) -> StoredTools:
        return StoredTools(loaded, self._database, self._thread)

    def _last_known(self) -> tuple[ServerStatus, ...]:
        """As of the present configuration and the last run; nothing is started. Blocks."""
        loaded = self._product.present()
        changes: dict[str, list[ToolChange]] = {}
        for it in self._tools(loaded).waiting(None):
            changes.setdefault(it.definition.server, []).append(_change(it, it.change.shortened(), loaded))
        with_sign_in = {name for name, settings in loaded.settings.servers.items() if has_sign_in(settings)}
        mask = partial(masked, loaded=loaded)
        with KnownTools.of(loaded) as known:
            return tuple(
                replace(
                    _status(it, mask),
                    has_sign_in=it.raw_name in with_sign_in,
                    changes=tuple(changes.get(it.raw_name, ())),
                )
                for it in known.catalog.servers
            )


def _of_tool(waiting: Iterable[WaitingTool], key: str, tool_key: str) -> list[WaitingTool]:
    return [it for it in waiting if (key_of(it.definition.server), key_of(it.definition.tool)) == (key, tool_key)]


def _change(it: WaitingTool, lines: Iterable[str], loaded: LoadedSettings) -> ToolChange:
    shown = tuple(masked(line, loaded) for line in lines)
    return ToolChange(masked(it.title, loaded), key_of(it.definition.tool), shown)


def _newest(it: ServerStatus, checked: ServerStatus | None) -> ServerStatus:
    """What a check found, unless the server is new or was switched since."""
    off = UpstreamState.DISABLED.value
    if checked is None or (it.state == off) != (checked.state == off):
        return it
    return replace(checked, has_sign_in=it.has_sign_in, changes=it.changes)


def _name_of(loaded: LoadedSettings, key: str) -> str:
    names = [*loaded.settings.servers, *loaded.invalid_servers]
    found = next((name for name in names if key_of(name) == key), None)
    if found is None:
        raise CodemodeError("the configuration has no such server (any more)")
    return found


def _status(server: Server, mask: Callable[[str], str]) -> ServerStatus:
    tokens = sum(estimate_tokens(definition_text(tool.definition)) for tool in server.tools)
    problems = [f"left out: {problem}" for problem in server.problems]
    error = mask("; ".join(filter(None, [server.error, *problems])))
    key = key_of(server.raw_name)
    return ServerStatus(mask(server.raw_name), key, server.state.value, len(server.tools), tokens, error)
