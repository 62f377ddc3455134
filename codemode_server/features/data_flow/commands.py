"""The `sources` command: shows what sessions have read, by which `permissions.flows` decides, and forgets it, for a
person at a terminal only: a session that has read nothing may send data anywhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, local_time, person_confirms, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.flows import EPHEMERAL, SESSION_LOGS, WORKSPACE, Source
from codemode_server.features.data_flow.source_store import SourceStore
from codemode_server.records.executions import Records, stored_records
from codemode_server.support.text import first_lines, one_line

_MEANING = {
    WORKSPACE: "by way of /workspace, for every session",
    SESSION_LOGS: "by way of the logs in /workspace/sessions, for every session where permissions.flows restricts",
    EPHEMERAL: "all sessions over HTTP that end with their request",
}
_MAX_LISTED = 50
_MAX_TITLE_CHARACTERS = 120
_MAX_AUDITED_CHARACTERS = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print what each session has read; the default")
    listing.add_argument("--json", action="store_true", help="print JSON")
    forgetting = actions.add_parser("forget", help="forget it, so that it restricts no call any more; asks you")
    forgetting.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"as `list` prints it, or `{WORKSPACE}`; without it, everything"
    )


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    found = anyio.run(_stored, loaded)
    if parsed.action != "forget":
        show(json.dumps([it.as_json() for it in found], indent=2) if getattr(parsed, "json", False) else _page(found))
        return 0
    chosen = [it for it in found if parsed.session in (None, it.session)]
    if not chosen:
        which = "" if parsed.session is None else f" of a session {one_line(parsed.session, 200)!r}"
        raise CodemodeError(f"nothing is stored{which}; `codemode-server sources` lists what sessions have read")
    question = "Forget this? What programs, conversations and files still hold of it may then be sent anywhere."
    if not person_confirms(_page(chosen), question):
        show("nothing was forgotten")
        return 1
    anyio.run(partial(_forget, loaded, chosen))
    show(f"forgotten: {', '.join(it.session for it in chosen)}")
    return 0


@dataclass(frozen=True, slots=True)
class SessionSources:
    """The sources that one session has read, or that are in /workspace."""

    session: str
    sources: Sequence[Source]

    @property
    def newest(self) -> float:
        return max(it.at for it in self.sources)

    @property
    def text(self) -> str:
        about = _MEANING.get(self.session, f"last new source {local_time(self.newest)}")
        lines = first_lines([_line(it) for it in self.sources], _MAX_LISTED, "… and {:,} more")
        return "\n  ".join([f"{one_line(self.session, 200)} ({about})", *lines])

    def as_json(self) -> dict[str, Any]:
        sources = [
            {"server": it.server, "tool": it.tool, "labels": sorted(it.labels), "at": local_time(it.at)}
            for it in self.sources
        ]
        return {"session": self.session, "sources": sources}


async def _stored(loaded: LoadedSettings) -> list[SessionSources]:
    """The stored sources of the configuration's principal, the newest session last."""
    with stored_records(loaded) as records:
        read = _store(records).all()
        owner = records.principal.principal_id
    found = [SessionSources(holder, its) for (principal, holder), its in read.items() if principal == owner]
    return sorted(found, key=lambda it: (it.session not in _MEANING, it.newest))


def _store(records: Records) -> SourceStore:
    return SourceStore(records.database, records.thread)


async def _forget(loaded: LoadedSettings, chosen: Sequence[SessionSources]) -> None:
    with stored_records(loaded) as records:
        principal, stored = records.principal, _store(records)
        await stored.forget([(principal.principal_id, it.session) for it in chosen])
        for it in chosen:
            reason = ", ".join(_line(one) for one in it.sources)[:_MAX_AUDITED_CHARACTERS]
            kind = AuditEventKind.SOURCES_FORGOTTEN
            event = AuditEvent.by_person(kind, principal, it.session, reason=reason, status="forgotten")
            records.audit.append(event)


def _page(found: Sequence[SessionSources]) -> str:
    return "\n\n".join(it.text for it in found) or "no session has read anything"


def _line(it: Source) -> str:
    labels = f": {', '.join(sorted(it.labels))}" if it.labels else ""
    return one_line(f"{it.title}{labels}", _MAX_TITLE_CHARACTERS)
