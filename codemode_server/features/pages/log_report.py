"""The page of the product's log: its newest records. They had their secrets masked when they were written."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import anyio.to_thread

from codemode_server.cli.logs import FILE_NAME, FOLDER_NAME
from codemode_server.records.executions import Records
from codemode_server.records.reports import Column, Report, ReportPage, Row
from codemode_server.startup.stores import state_folder
from codemode_server.support.private_files import NotPrivate, open_private

_READ_BYTES = 1 << 19
_MAX_SHOWN = 300
_MAX_LINES = 40
"""Of an exception, which ends with what happened."""
_START = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} ([A-Z]+) ([\w.]+): (.*)")
_LEVELS = {"all": (), "warnings and errors": ("warning", "error", "critical"), "errors": ("error", "critical")}


@dataclass(frozen=True, slots=True)
class _Record:
    at: float
    level: str
    part: str
    """The module of the product."""
    lines: list[str]
    """The message, and an exception's."""


async def _read(records: Records, level: str) -> Report:
    levels, folder = _LEVELS.get(level, ()), state_folder(records.loaded.settings) / FOLDER_NAME
    every = await anyio.to_thread.run_sync(_records, folder)
    found = [it for it in reversed(every) if not levels or it.level in levels][:_MAX_SHOWN]
    rows = [Row((it.at, it.level, tuple(it.lines[:1] + it.lines[1:][-_MAX_LINES:]), it.part)) for it in found]
    return Report(rows, [f"The newest records of {folder / FILE_NAME}"])


def _records(folder: Path) -> list[_Record]:
    """The oldest first."""
    found: list[_Record] = []
    for line in (line for name in (f"{FILE_NAME}.1", FILE_NAME) for line in _last_lines(folder / name)):
        if (start := _START.fullmatch(line)) is not None:
            at = datetime.fromisoformat(start[1]).astimezone().timestamp()
            found.append(_Record(at, start[2].lower(), start[3].removeprefix("codemode_server."), [start[4]]))
        elif found:
            found[-1].lines.append(line.removeprefix("    "))
    return found


def _last_lines(path: Path) -> list[str]:
    with suppress(OSError, NotPrivate), os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_BYTES))
        return file.read(_READ_BYTES).decode("utf-8", "replace").splitlines()
    return []


LOG = ReportPage(
    name="log",
    title="Log",
    columns=(Column("Time", "moment"), Column("Level", "status"), Column("Message"), Column("Part")),
    read=_read,
    empty="There are no such records.",
    choices=(*_LEVELS,),
    is_live=True,
)
