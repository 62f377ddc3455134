"""The pages of servers, their changed tools and their stubs.

They show what the configuration has, what the last list of a server has, and what a product that runs reports.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.calls.policy.effect_proposals import proposed_readers
from codemode_server.catalog.catalog import Server, Tool
from codemode_server.config import LoadedSettings
from codemode_server.config.saving import EditedFile
from codemode_server.domain.tools import UpstreamState, definition_text
from codemode_server.features.changed_tools.tool_definitions import REVIEW
from codemode_server.features.changed_tools.tool_reviews import (
    StoredTools,
    WaitingTool,
    accepted_text,
    digest_of_review,
    shortened,
)
from codemode_server.features.pages.server_forms import ServerForms, Trial
from codemode_server.features.pages.sign_in_forms import SignInForms
from codemode_server.features.pages.site import Site
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools
from codemode_server.records.reports import key_of
from codemode_server.records.server_edits import line_of
from codemode_server.sandbox.registry import installed_packages, package_checks
from codemode_server.storage.server_states import RunningProduct
from codemode_server.support.text import counted
from codemode_server.support.tokens import estimate_tokens
from codemode_server.upstreams.auth.sign_ins import has_sign_in

_MAX_LINES = 5_000
"""Lines of a difference in a page; a longer one is reviewed at a terminal."""
_MAX_LISTED = 1_000


class ServerPages:
    def __init__(self, site: Site, records: Records, forms: ServerForms, sign_ins: SignInForms) -> None:
        self._site = site
        self._records = records
        self._forms = forms
        self._sign_ins = sign_ins
        site.get("servers", self._servers)
        site.get("servers/{key}", self._server)
        site.get("servers/{key}/tools/{tool_key}", self._review)
        site.post("servers/{key}/tools/{tool_key}/accept", self._accept)
        site.get("tools/{key}/{tool_key}", self._tool)

    async def _servers(self, request: Request) -> Response:
        known = await anyio.to_thread.run_sync(self._last_known)
        return await self._site.page("servers", "servers", request, is_live=True, **known)

    async def _review(self, request: Request, *, has_changed: bool = False) -> Response:
        key, tool_key = request.path_params["key"], request.path_params["tool_key"]
        loaded = await anyio.to_thread.run_sync(self._records.present)
        waiting = await anyio.to_thread.run_sync(self._waiting, loaded, key, tool_key)
        if not waiting:
            gone = "This tool was accepted meanwhile, or is listed no more."
            return self._site.message(404, "Nothing to review", gone)
        is_whole = all(it.change for it in waiting) and sum(len(it.change) for it in waiting) <= _MAX_LINES
        return await self._site.page(
            "review",
            "servers",
            status=409 if has_changed else 200,
            changes=[
                _change(it, it.change if is_whole else shortened(it.change), loaded.redactor.text) for it in waiting
            ],
            digest=digest_of_review(waiting),
            terminal="" if is_whole else f"{REVIEW} --accept {shlex.quote(loaded.redactor.text(waiting[0].name))}",
            action=f"servers/{key}/tools/{tool_key}",
            has_changed=has_changed,
        )

    async def _accept(self, request: Request, form: Mapping[str, str]) -> Response:
        """Accept the definitions that were shown, by their digest; others that wait by now are shown instead."""
        loaded = await anyio.to_thread.run_sync(self._records.present)
        names = request.path_params["key"], request.path_params["tool_key"]
        waiting = await anyio.to_thread.run_sync(self._waiting, loaded, *names)
        if not waiting or digest_of_review(waiting) != form.get("digest", ""):
            return await self._review(request, has_changed=True)
        accepted = await self._stored(loaded).accept(waiting)
        return self._site.redirect("servers", loaded.redactor.text(accepted_text(accepted)))

    async def _server(self, request: Request) -> Response:
        def values(server: Server, known: KnownTools) -> dict[str, Any]:
            loaded, name = known.loaded, server.raw_name
            mask = loaded.redactor.text
            readers = proposed_readers(loaded.settings.permissions, known.catalog).get(name, ())
            trial, settings = self._forms.trials.get(name), loaded.settings.servers.get(name)
            attempt = self._sign_ins.attempts.get(name)
            tools = [
                (mask(it.name), key_of(it.raw_name), it.effect.value, mask(it.summary))
                for it in (server.tools or (trial.server.tools if trial is not None else ()))
            ]
            return {
                "it": _status(server, mask, self._records.running()[:1]),
                "entry": _entry(loaded, name),
                "trial": None if trial is None else _tried(trial, mask),
                "has_sign_in": settings is not None and has_sign_in(settings),
                "attempt": attempt,
                "problem": mask(attempt.problem) if attempt is not None else "",
                "is_live": attempt is not None and attempt.is_running,
                "readers": [mask(it.name) for it in readers],
                "tools": tools[:_MAX_LISTED],
                "more": max(0, len(tools) - _MAX_LISTED),
            }

        return await self._tool_page("server", request, values)

    async def _tool(self, request: Request) -> Response:
        def values(server: Server, known: KnownTools) -> dict[str, Any] | None:
            mask = known.loaded.redactor.text
            tool = next((it for it in server.tools if key_of(it.raw_name) == request.path_params["tool_key"]), None)
            if tool is None:
                return None
            source = mask(tool.stub.source)
            decided = known.explain(known.subject(f"{server.raw_name}/{tool.raw_name}"), None).decision
            return {
                "tool_key": key_of(tool.raw_name),
                "decision": "" if decided is None else decided.kind,
                "reason": "it depends on the arguments" if decided is None else mask(decided.reason),
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
        self, template: str, request: Request, values: Callable[[Server, KnownTools], dict[str, Any] | None]
    ) -> Response:
        key = request.path_params["key"]

        def read() -> dict[str, Any] | None:
            loaded = self._records.present()
            with KnownTools.of(loaded) as known:
                server = next((it for it in known.catalog.servers if key_of(it.raw_name) == key), None)
                return None if server is None else values(server, known)

        shown = await anyio.to_thread.run_sync(read)
        if shown is None:
            return self._site.message(404, "Nothing here", "There is no such server or tool (any more).")
        return await self._site.page(template, "servers", request, key=key, **shown)

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
        running = self._records.running()
        with KnownTools.of(loaded) as known:
            servers = [
                _status(it, mask, running[:1]) | {"changes": changes.get(it.raw_name, ())}
                for it in known.catalog.servers
            ]
        sandbox = loaded.settings.sandbox
        packages = package_checks(sandbox, installed_packages(sandbox))
        lines = [(it.is_obstacle, mask(it.line)) for it in packages]
        return {"servers": servers, "running": running, "packages": lines}


def _change(it: WaitingTool, lines: Iterable[str], mask: Callable[[str], str]) -> dict[str, Any]:
    """A definition that waits for a review, with the lines of a unified diff."""
    shown = [mask(line) for line in lines]
    return {"title": mask(it.title), "key": key_of(it.definition.tool), "lines": shown}


def _status(server: Server, mask: Callable[[str], str], running: Sequence[RunningProduct]) -> dict[str, Any]:
    """A server as the configuration has it, in the state that a product which runs reports."""
    live = next((it.servers[server.raw_name] for it in running if server.raw_name in it.servers), None)
    is_off = server.state in (UpstreamState.DISABLED, UpstreamState.INVALID)
    error = live.error if live is not None and not is_off else server.error or ""
    return {
        "name": mask(server.raw_name),
        "key": key_of(server.raw_name),
        "state": server.state.value if is_off else "" if live is None else live.state,
        "since": None if is_off or live is None else live.since,
        "is_enabled": server.state is not UpstreamState.DISABLED,
        "tools": len(server.tools),
        "tokens": sum(estimate_tokens(definition_text(tool.definition)) for tool in server.tools),
        "error": mask("; ".join(filter(None, [error, *server.problems]))),
    }


def _entry(loaded: LoadedSettings, name: str) -> dict[str, Any]:
    """The entry of a server as its file has it, without secrets."""
    written = {} if loaded.place is None else EditedFile(loaded.place).text.servers().get(name)
    entry: dict[str, Any] = written if isinstance(written, dict) else {}
    mask = loaded.redactor.text
    names = {key: [*map(mask, it)] for key in ("env", "headers") if isinstance(it := entry.get(key), dict)}
    cwd = entry.get("cwd")
    return {"line": mask(line_of(entry)), "cwd": mask(str(cwd)) if cwd else "", "env": [], "headers": [], **names}


def _tried(trial: Trial, mask: Callable[[str], str]) -> dict[str, Any]:
    server = trial.server
    lines = [*(server.error or "").split("\n"), *server.problems]
    return {
        "at": trial.at,
        "state": server.state.value,
        "protocol": mask(server.listing.protocol or ""),
        "tools": len(server.tools),
        "lines": [mask(line) for line in lines if line],
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
