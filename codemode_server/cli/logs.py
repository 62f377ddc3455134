"""The `logs` command: prints the product's own log, which products of this state folder write, and follows it.

A record is one line; the indented lines of an exception belong to the record before them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from codemode_server.cli.arguments import add_config, config_file, count
from codemode_server.cli.terminal import show
from codemode_server.config import load
from codemode_server.first_listing import state_folder
from codemode_server.logs import FILE_NAME, FOLDER_NAME, OLD_FILES
from codemode_server.private_files import open_private

_POLL_SECONDS = 0.3
_LINES = 50
_MAX_LINE_BYTES = 64 * 1024
_RECORD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ([A-Z]+) ([\w.]+): (.*)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--lines", type=count, default=_LINES, metavar="COUNT", help=f"records; default {_LINES}")
    parser.add_argument("--follow", action="store_true", help="go on with what is logged from now on, until Ctrl+C")
    parser.add_argument("--execution", metavar="ID", help="only records that name this execution")
    parser.add_argument("--server", metavar="NAME", help="only records that name this server")
    parser.add_argument("--json", action="store_true", help="print JSON, a record a line")
    parser.add_argument("--path", action="store_true", help="only print where the log is")


def run(parsed: argparse.Namespace) -> int:
    place = (
        state_folder(load(config_file(parsed), require_trust=False, resolve=False).settings) / FOLDER_NAME / FILE_NAME
    )
    if parsed.path:
        show(str(place))
        return 0
    wanted = Filter(tuple(filter(None, (parsed.execution, parsed.server))))
    for record in last_records(place, wanted, parsed.lines):
        _print(record, as_json=parsed.json)
    if parsed.follow:
        for record in followed(place):
            if wanted.lets_through(record):
                _print(record, as_json=parsed.json)
    elif not place.exists():
        show(f"nothing is logged yet; the log will be {place}")
    return 0


@dataclass(frozen=True, slots=True)
class Filter:
    """Records that name all of these words."""

    words: tuple[str, ...] = ()

    def lets_through(self, record: str) -> bool:
        return all(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", record) for word in self.words)


def last_records(place: Path, wanted: Filter, most: int) -> list[str]:
    """The newest records that fit, the newest last, also of the files that were renamed."""
    found: list[str] = []
    names = [place, *(place.with_name(f"{place.name}.{number}") for number in range(1, OLD_FILES + 1))]
    for name in names:
        if len(found) >= most:
            break
        with suppress(FileNotFoundError), closing(_opened(name)) as file:
            found = [*filter(wanted.lets_through, _records(_lines(file))), *found]
    return found[-most:]


def followed(place: Path, pause: Callable[[], None] = lambda: time.sleep(_POLL_SECONDS)) -> Iterator[str]:
    """Records that are added from now on; waits for them, also for the next file when this one is renamed."""
    file: BufferedReader | None = None
    rest, is_first = b"", True
    try:
        while True:
            if file is None:
                with suppress(FileNotFoundError):
                    file = _opened(place)
                    if is_first:
                        file.seek(0, os.SEEK_END)
            is_first = False
            if file is not None:
                added = file.read()
                complete, _, rest = (rest + added).rpartition(b"\n")
                if complete:
                    yield from _records(complete.decode("utf-8", "replace").split("\n"))
                if not added and _is_renamed(file, place):
                    file.close()
                    file, rest = None, b""
                    continue
            pause()
    finally:
        if file is not None:
            file.close()


def _opened(path: Path) -> BufferedReader:
    return os.fdopen(open_private(path, os.O_RDONLY), "rb")


def _is_renamed(file: BufferedReader, place: Path) -> bool:
    try:
        return not os.path.samestat(os.fstat(file.fileno()), place.stat())
    except FileNotFoundError:
        return True


def _lines(file: BufferedReader) -> Iterator[str]:
    while line := file.readline(_MAX_LINE_BYTES):
        yield line.decode("utf-8", "replace").rstrip("\n")


def _records(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Lines with the indented ones after them."""
    record = ""
    for line in lines:
        if record and line.startswith("    "):
            record = f"{record}\n{line}"
        else:
            if record:
                yield record
            record = line
    if record:
        yield record


def _print(record: str, *, as_json: bool) -> None:
    show(json.dumps(_as_json(record)) if as_json else record)


def _as_json(record: str) -> dict[str, Any]:
    parts = _RECORD.fullmatch(record)
    if parts is None:
        return {"at": None, "level": None, "logger": None, "message": record}
    return dict(zip(("at", "level", "logger", "message"), parts.groups(), strict=True))
