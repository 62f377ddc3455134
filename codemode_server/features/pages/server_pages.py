"""The pages of servers, their changed tools and their stubs.

Addresses and forms have a digest in place of each name that a server or a file gave.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.config import LoadedSettings
from codemode_server.config.saving import switch_servers
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.tools import definition_text
from codemode_server.features.changed_tools.tool_definitions import REVIEW
from codemode_server.features.changed_tools.tool_reviews import (
    StoredTools,
    WaitingTool,
    accepted_text,
    digest_of_review,
    shortened,
)
from codemode_server.features.pages.site import Site
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools
from codemode_server.sandbox.registry import installed_packages, package_checks
from codemode_server.support.text import counted
from codemode_server.support.tokens import estimate_tokens

_KEY_CHARACTERS = 16
_MAX_LINES = 5_000
"""Lines of a difference in a page; a longer one is reviewed at a terminal."""
_MAX_LISTED = 1_000


def key_of(name: str) -> str:
    """The digest that addresses and forms of the pages have in place of a name."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARACTERS]


class ServerPages:
    """Nothing of a server is started."""

    def __init__(self, site: Site, records: Records) -> None:
        self._site = site
        self._records = records
        self._done = ""
        """The effect of the person's last action on this page."""
        site.get("servers", self._servers)
        for action in ("enable", "disable"):
            site.post(f"servers/{{key}}/{action}", partial(self._switch, is_enabled=action == "enable"))
        site.get("servers/{key}/tools/{tool_key}", self._review)
        site.post("servers/{key}/tools/{tool_key}/accept", self._accept)
        site.get("tools/{key}", self._tools)
        site.get("tools/{key}/{tool_key}", self._tool)

    async def _servers(self, request: Request) -> Response:
        known = await anyio.to_thread.run_sync(self._last_known)
        return await self._site.page("servers", "servers", request, done=self._done, **known)

    async def _switch(self, request: Request, _: Mapping[str, str], *, is_enabled: bool) -> Response:
        key = request.path_params["key"]

        def switch() -> str:
            place = self._records.loaded.place
            if place is None:
                raise CodemodeError("there is no configuration to edit; `codemode-server init` writes a first one")
            loaded = self._records.present()
            lines = switch_servers(place, [_name_of(loaded, key)], is_enabled=is_enabled)
            return loaded.redactor.text("; ".join(filter(None, lines)))

        self._done = await anyio.to_thread.run_sync(switch)
        return self._site.redirect("servers")

    async def _review(self, request: Request, *, has_changed: bool = False) -> Response:
        key, tool_key = request.path_params["key"], request.path_params["tool_key"]
        loaded = await anyio.to_thread.run_sync(self._records.present)
        waiting = await anyio.to_thread.run_sync(self._waiting, loaded, key, tool_key)
        if not waiting:
            gone = "This tool was accepted meanwhile, or is listed no more."
            return self._site.message(404, "Nothing to review", gone)
        is_whole = all(it.change for it in waiting) and sum(len(it.change) for it in waiting) <= _MAX_LINES
        response = await self._site.page(
            "review",
            "servers",
            changes=[
                _change(it, it.change if is_whole else shortened(it.change), loaded.redactor.text) for it in waiting
            ],
            digest=digest_of_review(waiting),
            terminal="" if is_whole else f"{REVIEW} --accept {shlex.quote(loaded.redactor.text(waiting[0].name))}",
            action=f"servers/{key}/tools/{tool_key}",
            has_changed=has_changed,
        )
        response.status_code = 409 if has_changed else 200
        return response

    async def _accept(self, request: Request, form: Mapping[str, str]) -> Response:
        """Accept the definitions that were shown, by their digest; others that wait by now are shown instead."""
        loaded = await anyio.to_thread.run_sync(self._records.present)
        names = request.path_params["key"], request.path_params["tool_key"]
        waiting = await anyio.to_thread.run_sync(self._waiting, loaded, *names)
        if not waiting or digest_of_review(waiting) != form.get("digest", ""):
            return await self._review(request, has_changed=True)
        accepted = await self._stored(loaded).accept(waiting)
        self._done = loaded.redactor.text(accepted_text(accepted))
        return self._site.redirect("servers")

    async def _tools(self, request: Request) -> Response:
        def values(server: Server, mask: Callable[[str], str]) -> dict[str, Any]:
            tools = [(mask(it.name), key_of(it.raw_name), it.effect.value, mask(it.summary)) for it in server.tools]
            more = max(0, len(tools) - _MAX_LISTED)
            return {"server": mask(server.raw_name), "tools": tools[:_MAX_LISTED], "more": more}

        return await self._tool_page("tools", request, values)

    async def _tool(self, request: Request) -> Response:
        def values(server: Server, mask: Callable[[str], str]) -> dict[str, Any] | None:
            tool = next((it for it in server.tools if key_of(it.raw_name) == request.path_params["tool_key"]), None)
            if tool is None:
                return None
            source = mask(tool.stub.source)
            return {
                "server": mask(server.raw_name),
                "title": mask(f"{server.name}.{tool.name}"),
                "call": mask(f"{server.raw_name}/{tool.raw_name}"),
                "effect": tool.effect.value,
                "returned": _origin(tool),
                "tokens": estimate_tokens(source),
                "source": source,
            }

        return await self._tool_page("tool", request, values)

    async def _tool_page(
        self, template: str, request: Request, values: Callable[[Server, Callable[[str], str]], dict[str, Any] | None]
    ) -> Response:
        key = request.path_params["key"]

        def read() -> dict[str, Any] | None:
            loaded = self._records.present()
            with KnownTools.of(loaded) as known:
                server = next((it for it in known.catalog.servers if key_of(it.raw_name) == key), None)
                return None if server is None else values(server, loaded.redactor.text)

        shown = await anyio.to_thread.run_sync(read)
        if shown is None:
            return self._site.message(404, "Nothing here", "There is no such server or tool (any more).")
        return await self._site.page(template, "servers", key=key, **shown)

    def _stored(self, loaded: LoadedSettings) -> StoredTools:
        return StoredTools(loaded, self._records.database, self._records.thread)

    def _waiting(self, loaded: LoadedSettings, key: str, tool_key: str) -> list[WaitingTool]:
        every = self._stored(loaded).waiting(None)
        return [it for it in every if (key_of(it.definition.server), key_of(it.definition.tool)) == (key, tool_key)]

    def _last_known(self) -> dict[str, Any]:
        """As of the present configuration and the last run; nothing is started. Blocks."""
        loaded = self._records.present()
        mask = loaded.redactor.text
        changes: dict[str, list[dict[str, Any]]] = {}
        for it in self._stored(loaded).waiting(None):
            changes.setdefault(it.definition.server, []).append(_change(it, shortened(it.change), mask))
        with KnownTools.of(loaded) as known:
            servers = [_status(it, mask) | {"changes": changes.get(it.raw_name, ())} for it in known.catalog.servers]
        sandbox = loaded.settings.sandbox
        packages = package_checks(sandbox, installed_packages(sandbox))
        return {"servers": servers, "packages": [(it.is_obstacle, mask(it.line)) for it in packages]}


def _change(it: WaitingTool, lines: Iterable[str], mask: Callable[[str], str]) -> dict[str, Any]:
    """A definition that waits for a review, with the lines of a unified diff."""
    shown = [mask(line) for line in lines]
    return {"title": mask(it.title), "key": key_of(it.definition.tool), "lines": shown}


def _name_of(loaded: LoadedSettings, key: str) -> str:
    names = [*loaded.settings.servers, *loaded.invalid_servers]
    name = next((name for name in names if key_of(name) == key), None)
    if name is None:
        raise CodemodeError("the configuration has no such server (any more)")
    return name


def _status(server: Server, mask: Callable[[str], str]) -> dict[str, Any]:
    return {
        "name": mask(server.raw_name),
        "key": key_of(server.raw_name),
        "state": server.state.value,
        "tools": len(server.tools),
        "tokens": sum(estimate_tokens(definition_text(tool.definition)) for tool in server.tools),
        "error": mask("; ".join(filter(None, [server.error, *server.problems]))),
    }


def _origin(tool: Tool) -> str:
    returned = tool.returned
    if returned.awaits_first_call:
        return "learned at the first call"
    match returned.origin:
        case "observed":
            return f"learned from {counted(returned.calls, 'call')}"
        case "declared":
            return "declared by the server"
    return "not known"
