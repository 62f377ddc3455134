"""What sessions have read, and how the workspace carries it to others: for the command `sources` and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio.to_thread

from codemode_server.cli.terminal import local_time
from codemode_server.config import LoadedSettings
from codemode_server.domain.flows import EPHEMERAL, SESSION_LOGS, SHARED, WORKSPACE, Source
from codemode_server.features.data_flow.source_store import CLOCK_SECONDS, SourceStore
from codemode_server.records.executions import Records
from codemode_server.records.reports import Column, Report, ReportPage, Row
from codemode_server.records.workspace_files import folder
from codemode_server.support.text import first_few, first_lines, one_line
from codemode_server.support.untrusted_files import TooManyFiles, walk

_MEANING = {
    WORKSPACE: "by way of /workspace, for every session",
    SESSION_LOGS: "by way of the logs in /workspace/sessions, for every session where permissions.flows restricts",
    EPHEMERAL: "all sessions over HTTP that end with their request",
}
MAX_LISTED = 50
_MAX_TITLE_CHARACTERS = 120
_MAX_NAMED = 3
_MAX_SESSION_CHARACTERS = 200
_MAX_WALKED = 10_000
_MAX_WHY_CHARACTERS = 400
_MAX_SHOWN = 500
_ABOUT = (
    "By these permissions.flows decides where a session may send data. codemode-server sources forget ends that, for a "
    "session or for the workspace."
)


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
        every = [line_of(it) + (f" ({why})" if (why := self.why(it)) else "") for it in self.sources]
        lines = first_lines(every, MAX_LISTED, "… and {:,} more")
        return "\n  ".join([f"{one_line(self.session, _MAX_SESSION_CHARACTERS)} ({about})", *lines])

    def why(self, it: Source) -> str:
        """How a source came into /workspace, and the files that may hold it."""
        if self.session not in SHARED:
            return ""
        sessions, files = self.readers.get(it.key, ()), self._files_since(it)
        by = f" by session {first_few(sessions, _MAX_NAMED)}" if sessions else ""
        held = f"; changed since: {first_few(files, _MAX_NAMED)}" if files else "; no file has changed since"
        return one_line(f"read{by}, written after {local_time(it.at)}{held}", _MAX_WHY_CHARACTERS)

    def _files_since(self, it: Source) -> list[str]:
        return [path for changed_at, path in self.files if changed_at >= it.at - CLOCK_SECONDS]

    def as_json(self) -> dict[str, Any]:
        return {"session": self.session, "sources": [self._source_json(it) for it in self.sources]}

    def _source_json(self, it: Source) -> dict[str, Any]:
        said = {"server": it.server, "tool": it.tool, "labels": sorted(it.labels), "at": local_time(it.at)}
        if self.session not in SHARED:
            return said
        files = self._files_since(it)[:MAX_LISTED]
        return {**said, "read_by": list(self.readers.get(it.key, ())), "files": files}


def with_reasons(loaded: LoadedSettings, found: Sequence[SessionSources]) -> list[SessionSources]:
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


def stored(records: Records) -> list[SessionSources]:
    """The stored sources of the local principal, the newest session last. Blocks."""
    read, owner = store_of(records).all(), records.principal.principal_id
    found = [SessionSources(holder, its) for (principal, holder), its in read.items() if principal == owner]
    return sorted(found, key=lambda it: (it.session not in _MEANING, it.newest))


def store_of(records: Records) -> SourceStore:
    return SourceStore(records.database, records.thread)


def line_of(it: Source) -> str:
    labels = f": {', '.join(sorted(it.labels))}" if it.labels else ""
    return one_line(f"{it.title}{labels}", _MAX_TITLE_CHARACTERS)


async def _read(records: Records, _: str) -> Report:
    found = await anyio.to_thread.run_sync(lambda: with_reasons(records.loaded, stored(records)))
    rows = [_row(one, it) for one in reversed(found) for it in reversed(one.sources)]
    return Report(rows[:_MAX_SHOWN], [_ABOUT] if rows else [], max(0, len(rows) - _MAX_SHOWN))


def _row(one: SessionSources, it: Source) -> Row:
    lines = one_line(one.session, _MAX_SESSION_CHARACTERS), _MEANING.get(one.session, ""), one.why(it)
    where = tuple(filter(None, lines))
    return Row((one_line(it.title, _MAX_TITLE_CHARACTERS), ", ".join(sorted(it.labels)), where, it.at))


SOURCES = ReportPage(
    name="sources",
    title="Sources",
    columns=(Column("Tool"), Column("Labels"), Column("Session"), Column("First read", "moment")),
    read=_read,
    empty="No session has read anything yet.",
)
