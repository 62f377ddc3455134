"""The forms that change the configuration's servers: add, enable, disable, and the test that starts one once.

What a form adds is run as the person. So nothing fills a form in but the person and the configuration: no part of an
address, and no text of a server.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.catalog.catalog import Server
from codemode_server.config import saving
from codemode_server.config.loading import load_place
from codemode_server.config.saving import switch_servers
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.config_edits import ConfigEdits, EditExtras
from codemode_server.features.pages.site import Site
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools
from codemode_server.records.reports import key_of
from codemode_server.records.server_edits import (
    SecretDestination,
    entry_from,
    only,
    pairs,
    planned,
    save,
    switched_on,
)

_FIELDS = ("name", "line", "env", "headers", "cwd")
_WAIT_SECONDS = 60.0
"""Time that a server has to start in a test; the first start of a package downloads it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a server answered when it was started once."""

    server: Server
    at: float
    """Seconds since 1970."""


class ServerForms:
    def __init__(self, site: Site, records: Records, edits: ConfigEdits) -> None:
        self._site = site
        self._records = records
        self._edits = edits
        self.trials: dict[str, Trial] = {}
        """The last one of each server, by its raw name."""
        self._trying = anyio.Lock()
        site.get("servers/add", partial(self._form, {}, ""))
        site.post("servers/add", self._add)
        for action in ("enable", "disable"):
            site.post(f"servers/{{key}}/{action}", partial(self._switch, is_enabled=action == "enable"))
        site.post("servers/{key}/test", self._test)

    async def _form(self, given: Mapping[str, str], problem: str, request: Request) -> Response:
        return await self._site.page(
            "add",
            "servers",
            request,
            status=400 if problem else 200,
            given={name: given.get(name, "") for name in _FIELDS},
            problem=problem,
            file=str(self._edits.place.path),
            folder=str(Path.cwd()),
        )

    async def _add(self, request: Request, form: Mapping[str, str]) -> Response:
        try:
            name, done = await anyio.to_thread.run_sync(self._added, form)
        except CodemodeError as error:
            return await self._form(form, str(error), request)
        if "test" in form:
            await self._try(name)
        return self._site.redirect(f"servers/{key_of(name)}", done)

    def _added(self, form: Mapping[str, str]) -> tuple[str, str]:
        """The name of the server, and what was done. Blocks. Raises `CodemodeError`."""
        name, cwd, place = form.get("name", "").strip(), form.get("cwd", "").strip() or None, self._edits.place
        try:
            words = shlex.split(form.get("line", ""))
        except ValueError as error:
            raise CodemodeError(f"the command can't be split into words: {error}") from None
        if not words:
            raise CodemodeError("give an address, or the command that starts the server")
        env = pairs(lines_of(form.get("env", "")), "=", "NAME=value")
        entry = entry_from(words, env, pairs(lines_of(form.get("headers", "")), ":", "Name: value"), cwd=cwd)
        with saving.locked(place) as file:
            storage = SecretDestination(file, "dotenv")
            made = planned(file, name, entry, storage)
            save(file, made, storage)
        return name, self._edits.after_saving(file, [f"Added to {place.path}."], EditExtras.of(file, made))

    async def _switch(self, request: Request, _: Mapping[str, str], *, is_enabled: bool) -> Response:
        def switch() -> str:
            name = self.name_of(request.path_params["key"])
            lines = switch_servers(self._edits.place, [name], is_enabled=is_enabled)
            return self._records.loaded.redactor.text("; ".join(filter(None, lines)))

        return self._site.redirect("servers", await anyio.to_thread.run_sync(switch))

    async def _test(self, request: Request, _: Mapping[str, str]) -> Response:
        name = await anyio.to_thread.run_sync(self.name_of, request.path_params["key"])
        await self._try(name)
        return self._site.redirect(f"servers/{key_of(name)}")

    async def _try(self, name: str) -> None:
        """Start a server once, and remember how it answered. Raises `CodemodeError`."""
        loaded = await anyio.to_thread.run_sync(load_place, self._edits.place)
        # Most runs of the pages try no server, and never need the product.
        product = await anyio.to_thread.run_sync(import_module, "codemode_server.records.connected")
        async with self._trying, product.connected(switched_on(only(loaded, [name]), name), _WAIT_SECONDS) as app:
            (server,) = app.catalog().servers
            self.trials[name] = Trial(server, time.time())

    def name_of(self, key: str) -> str:
        """The raw name of a server of the configuration. Blocks. Raises `CodemodeError`."""
        loaded = self._records.present()
        names = [*loaded.settings.servers, *loaded.invalid_servers]
        name = next((name for name in names if key_of(name) == key), None)
        if name is None:
            raise CodemodeError("the configuration has no such server (any more)")
        return name

    def names_of(self, key: str, tool_key: str | None) -> tuple[str, str | None]:
        """The raw names of a server and of a tool in its last list. Blocks. Raises `CodemodeError`."""
        name = self.name_of(key)
        if tool_key is None:
            return name, None
        with KnownTools.of(self._records.present()) as known:
            server = next((it for it in known.catalog.servers if it.raw_name == name), None)
        tools = () if server is None else server.tools
        tool = next((it.raw_name for it in tools if key_of(it.raw_name) == tool_key), None)
        if tool is None:
            raise CodemodeError("the server has no such tool (any more)")
        return name, tool


def lines_of(text: str) -> list[str]:
    """The lines of a box of a form that have something on them."""
    return [line.strip() for line in text.splitlines() if line.strip()]
