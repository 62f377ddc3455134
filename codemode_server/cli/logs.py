"""The product's own log: warnings go to stderr, everything to a file, nothing to stdout.

Each record passes the redactor, and is written on one line, so that a text of an upstream can't forge another. One
place in the source logs a bounded number of lines a minute, and the files have a bounded size.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from codemode_server.config.live import LiveConfig
from codemode_server.support.private_files import NotPrivate, open_private, private_folder, private_subfolder
from codemode_server.support.text import one_line

if TYPE_CHECKING:
    from logging import _ExcInfoType

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FILE_BYTES = 1 << 20
OLD_FILES = 3
"""Renamed files that stay: `codemode.log.1` is the newest of them."""
FOLDER_NAME, FILE_NAME = "logs", "codemode.log"
_MAX_EXCEPTION_LINES = 200
_PERIOD_SECONDS = 60.0
_MAX_RECORDS = 30
"""Records of one line of source in a period."""
_NOTE = "codemode_note"


class _LineFormatter(logging.Formatter):
    def __init__(self, config: LiveConfig, format_: str) -> None:
        super().__init__(format_)
        self._config = config

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = one_line(self._config.redactor_of_all.text(super().formatMessage(record)))
        return line + getattr(record, _NOTE, "")

    def formatException(self, ei: _ExcInfoType) -> str:
        return self._indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return self._indented(super().formatStack(stack_info))

    def _indented(self, text: str) -> str:
        lines = self._config.redactor_of_all.text(text).split("\n")
        if len(lines) > _MAX_EXCEPTION_LINES:
            half = _MAX_EXCEPTION_LINES // 2
            lines[half:-half] = [f"[{len(lines) - 2 * half} lines left out]"]
        return "\n".join(f"    {one_line(line)}" for line in lines)


class RateLimit(logging.Filter):
    """Lets through a bounded number of records of one line of source in a period, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began = clock()
        self._counts: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        note = ""
        if (now := self._clock()) - self._began >= _PERIOD_SECONDS:
            if left_out := sum(max(0, count - _MAX_RECORDS) for count in self._counts.values()):
                note = f" [before this, {left_out:,} more lines were left out of the log]"
            self._began, self._counts = now, Counter()
        place = (record.pathname, record.lineno)
        self._counts[place] += 1
        if self._counts[place] == _MAX_RECORDS:
            note += f" [more like this are left out for up to {_PERIOD_SECONDS:g} seconds]"
        setattr(record, _NOTE, note)
        return self._counts[place] <= _MAX_RECORDS


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        handle = open_private(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return TextIOWrapper(os.fdopen(handle, "ab"), encoding="utf-8")


def start(folder: Path | None, config: LiveConfig) -> Path | None:
    """Send the log to stderr (warnings and worse) and to a file in `folder`; gives the file, if it could be opened."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.setLevel(logging.INFO)
    to_person = logging.StreamHandler(sys.stderr)
    to_person.setLevel(logging.WARNING)
    _add(to_person, _LineFormatter(config, "codemode-server: %(message)s"))
    # Libraries log every request and every rejected line at INFO and WARNING; what matters of it, we log ourselves.
    for name in ("mcp", "httpx2", "httpcore2", "httpx", "opentelemetry", "uvicorn", "langfuse"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if folder is None:
        return None
    try:
        state_folder = private_folder(folder.parent, "state.dir in upstream.yaml", is_readable=True)
        place = private_subfolder(state_folder, folder.name) / FILE_NAME
        to_file = _PrivateFile(place, maxBytes=_FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8")
    except (OSError, NotPrivate) as error:
        root.warning("no log file in %s: %s", folder, error)
        return None
    _add(to_file, _LineFormatter(config, _FORMAT))
    return place


def _add(handler: logging.Handler, lines: _LineFormatter) -> None:
    handler.setFormatter(lines)
    handler.addFilter(RateLimit())
    logging.getLogger().addHandler(handler)
