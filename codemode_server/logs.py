"""The product's own log: warnings go to stderr, everything to a file, nothing to stdout.

Each record passes the redactor, so a secret that some library puts into a message does not get out that way, and is
then written on one line, so that a text of an upstream can't forge another. The lines of an exception are indented.
The files have a bounded size.
"""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from codemode_server.config.live import LiveConfig
from codemode_server.private_files import NotPrivate, open_private, private_folder, private_subfolder
from codemode_server.text import one_line

if TYPE_CHECKING:
    from logging import _ExcInfoType

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FILE_BYTES = 1 << 20
OLD_FILES = 3
"""Renamed files that stay: `codemode.log.1` is the newest of them."""
FOLDER_NAME, FILE_NAME = "logs", "codemode.log"
"""Folder and file name of the log in a state folder."""
_MAX_EXCEPTION_LINES = 200


class _LineFormatter(logging.Formatter):
    """One line for each record, masked and escaped."""

    def __init__(self, config: LiveConfig, format_: str) -> None:
        super().__init__(format_)
        self._config = config

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(self._config.redactor_of_all.text(super().formatMessage(record)))

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


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        handle = open_private(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return TextIOWrapper(os.fdopen(handle, "ab"), encoding="utf-8")


def start(folder: Path | None, config: LiveConfig) -> Path | None:
    """Send the log of this process to stderr (warnings and worse) and to `folder`/codemode.log.

    A file of 1 MiB is renamed, and a new one begun; the last three of these stay. Gives the file, if it could
    be opened.
    """
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
    logging.getLogger().addHandler(handler)
