"""Where the product's own log goes: stderr for what a person should act on, a file for the rest; stdout never.

Both pass the redactor, so a secret that some library puts into a message does not get out that way.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from codemode_server.redaction import Redactor

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Redacting(logging.Formatter):
    def __init__(self, redactor: Callable[[], Redactor], format_: str) -> None:
        super().__init__(format_)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().text(super().format(record))


def start(folder: Path | None, redactor: Callable[[], Redactor]) -> None:
    """Send the log of this process to stderr (warnings and worse) and to `folder`/codemode.log (1 MiB, 3 files)."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.setLevel(logging.INFO)
    to_person = logging.StreamHandler(sys.stderr)
    to_person.setLevel(logging.WARNING)
    to_person.setFormatter(_Redacting(redactor, "codemode-server: %(message)s"))
    root.addHandler(to_person)
    # Libraries tell every request and every rejected line at INFO and WARNING; what matters of it, we say ourselves.
    for name in ("mcp", "httpx2", "httpcore2", "httpx", "opentelemetry", "uvicorn", "langfuse"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        to_file = RotatingFileHandler(folder / "codemode.log", maxBytes=1 << 20, backupCount=3, delay=True)
    except OSError as error:
        root.warning("no log file in %s: %s", folder, error)
        return
    to_file.setFormatter(_Redacting(redactor, _FORMAT))
    root.addHandler(to_file)
