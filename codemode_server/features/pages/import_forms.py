"""The servers that the person's hosts have and the configuration has not: shown, and taken over by a change that is
shown before it is saved. Files of projects are left to `codemode-server import`, since others may have written them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.config.hosts import HOSTS
from codemode_server.config.import_plan import Addition, ImportPlan, unite
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.config_edits import ConfigEdits, EditExtras
from codemode_server.features.pages.site import Site
from codemode_server.records.reports import key_of
from codemode_server.records.server_edits import SecretDestination, host_files, line_of, planned_import, write

_MAX_LISTED = 200


class ImportForms:
    def __init__(self, site: Site, edits: ConfigEdits) -> None:
        self._site = site
        self._edits = edits
        site.get("servers/import", self._page)
        site.post("servers/import", self._take)

    async def _page(self, request: Request) -> Response:
        def read() -> dict[str, Any]:
            file, mask = EditedFile(self._edits.place), self._edits.mask()
            made = _planned(file, SecretDestination(file, "dotenv"))
            hosts: dict[str, list[dict[str, Any]]] = {}
            for it in made.additions[:_MAX_LISTED]:
                hosts.setdefault(it.found.host, []).append(
                    {"name": it.name, "key": key_of(it.name), "line": mask(line_of(it.entry)), "notes": _notes(it)}
                )
            return {
                "hosts": [(host, HOSTS[host].name, rows) for host, rows in hosts.items()],
                "skipped": [*map(mask, made.skipped)],
            }

        return await self._site.page("import", "servers", request, **await anyio.to_thread.run_sync(read))

    async def _take(self, request: Request, form: Mapping[str, str]) -> Response:
        """Take over one server, or all that a host has."""
        host, key = form.get("host", ""), form.get("key", "")

        def edit(file: EditedFile, storage: SecretDestination) -> EditExtras:
            found = [
                it.found
                for it in _planned(file, storage).additions
                if it.found.host == host and (not key or key_of(it.name) == key)
            ]
            if not found:
                raise CodemodeError("the host has no such server (any more), or your configuration has it by now")
            made = planned_import(found, file, storage)
            write(file, made)
            then = f"To have {HOSTS[host].name} use them from here: codemode-server connect {host}"
            return EditExtras.of(file, made, then)

        title = "Take over a server" if key else "Take over servers"
        return await self._edits.propose(title, edit, "servers")


def _planned(file: EditedFile, storage: SecretDestination) -> ImportPlan:
    """What all servers of the user's own files would add."""
    servers, equal = unite(it for source in host_files() for it in source.servers if it.scope == "user")
    made = planned_import(servers, file, storage)
    made.skipped[:0] = equal
    return made


def _notes(it: Addition) -> str:
    notes = [] if it.is_enabled else ["off"]
    notes += ["restricted"] if "tools" in it.entry else []
    for key in ("env", "headers"):
        names = it.entry.get(key)
        notes += [f"{key}: {', '.join(names)}"] if isinstance(names, Mapping) else []
    return "; ".join(notes)
