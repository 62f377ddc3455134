"""The `sources` command: shows what sessions have read, by which `permissions.flows` decides, and forgets it, for a
person at a terminal only: a session that has read nothing may send data anywhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, local_time, person_confirms, show
from codemode_server.cli.workspace import folder
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.flows import EPHEMERAL, SESSION_LOGS, SHARED, WORKSPACE, Source
from codemode_server.features.data_flow.source_store import CLOCK_SECONDS, SourceStore
from codemode_server.records.executions import Records, stored_records
from codemode_server.support.text import first_few, first_lines, one_line
from codemode_server.support.untrusted_files import TooManyFiles, walk

_MEANING = {
    WORKSPACE: "by way of /workspace, for every session",
    SESSION_LOGS: "by way of the logs in /workspace/sessions, for every session where permissions.flows restricts",
    EPHEMERAL: "all sessions over HTTP that end with their request",
}
_MAX_LISTED = 50
_MAX_TITLE_CHARACTERS = 120
_MAX_NAMED = 3
_MAX_WALKED = 10_000
_MAX_WHY_CHARACTERS = 400
_MAX_AUDITED_CHARACTERS = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
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
        found = _with_reasons(loaded, found)
        show(json.dumps([it.as_json() for it in found], indent=2) if parsed.json else _page(found))
        return 0
    chosen = [it for it in found if parsed.session in (None, it.session) or _is_in_files(parsed.session, it)]
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


def _is_in_files(session: str | None, it: SessionSources) -> bool:
    return session == WORKSPACE and it.session in SHARED


def files_sources(loaded: LoadedSettings) -> list[str]:
    """What the files in /workspace may hold, a line each; none where the database can't be read."""
    with suppress(CodemodeError, OSError):
        shared = [it for it in anyio.run(_stored, loaded) if it.session in SHARED]
        lines = list(dict.fromkeys(f"  {_line(it)}" for one in shared for it in one.sources))
        return first_lines(lines, _MAX_LISTED, "  … and {:,} more")
    return []


def forget_files(loaded: LoadedSettings) -> None:
    """Forget what sessions passed on by files in /workspace. Raises `CodemodeError`."""
    anyio.run(_forget, loaded, [it for it in anyio.run(_stored, loaded) if it.session in SHARED])


@dataclass(frozen=True, slots=True)
class SessionSources:
    """The sources that one session has read, or that are in /workspace."""

    session: str
    sources: Sequence[Source]
    files: Sequence[tuple[float, str]] = ()
    """Of those in /workspace: the files and when they were last changed, the newest first."""
    readers: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """Of those in /workspace: the sessions that have read each source, by its key."""

    @property
    def newest(self) -> float:
        return max(it.at for it in self.sources)

    @property
    def text(self) -> str:
        about = _MEANING.get(self.session, f"last new source {local_time(self.newest)}")
        lines = first_lines([f"{_line(it)}{self._why(it)}" for it in self.sources], _MAX_LISTED, "… and {:,} more")
        return "\n  ".join([f"{one_line(self.session, 200)} ({about})", *lines])

    def _why(self, it: Source) -> str:
        """How a source came into /workspace, and the files that may hold it."""
        if self.session not in SHARED:
            return ""
        sessions, files = self.readers.get(it.key, ()), self._files_since(it)
        by = f" by session {first_few(sessions, _MAX_NAMED)}" if sessions else ""
        held = f"; changed since: {first_few(files, _MAX_NAMED)}" if files else "; no file has changed since"
        return one_line(f" (read{by}, written after {local_time(it.at)}{held})", _MAX_WHY_CHARACTERS)

    def _files_since(self, it: Source) -> list[str]:
        return [path for changed_at, path in self.files if changed_at >= it.at - CLOCK_SECONDS]

    def as_json(self) -> dict[str, Any]:
        return {"session": self.session, "sources": [self._source_json(it) for it in self.sources]}

    def _source_json(self, it: Source) -> dict[str, Any]:
        said = {"server": it.server, "tool": it.tool, "labels": sorted(it.labels), "at": local_time(it.at)}
        if self.session not in SHARED:
            return said
        files = self._files_since(it)[:_MAX_LISTED]
        return {**said, "read_by": list(self.readers.get(it.key, ())), "files": files}


def _with_reasons(loaded: LoadedSettings, found: Sequence[SessionSources]) -> list[SessionSources]:
    """The same; those in /workspace with the sessions that read them, and the files that may hold them."""
    readers: dict[tuple[str, str], list[str]] = {}
    for one in found:
        for it in one.sources if one.session not in SHARED else ():
            readers.setdefault(it.key, []).append(one.session)
    workspace, files = folder(loaded), list[tuple[float, str]]()
    with suppress(TooManyFiles):
        for entry in walk(workspace, _MAX_WALKED) if workspace is not None else ():
            if not entry.is_folder and not entry.is_emptied:
                files.append((entry.status.st_ctime, entry.path))
    files.sort(reverse=True)
    return [replace(it, files=files, readers=readers) if it.session in SHARED else it for it in found]


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
