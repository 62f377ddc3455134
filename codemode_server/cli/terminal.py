"""Prints for commands, and asks the person; no text can control the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from codemode_server import logs
from codemode_server.config import LoadedSettings, load
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError
from codemode_server.redaction import Redactor
from codemode_server.text import escaped_lines

HOW_TO_ADD = "`codemode-server import` takes over those of your hosts, `codemode-server add` adds one"
"""How a person without servers gets some."""


def show(page: str) -> None:
    """Print the answer of a command."""
    print(escaped_lines(page))


def table(rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> list[str]:
    """Rows as lines with aligned columns; those from `numbers_from` on are aligned at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if numbers_from is not None and place >= numbers_from else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def line_width() -> int | None:
    """Characters of a line of the terminal that the answer goes to; None if it goes to none."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None


def announce(line: str) -> None:
    """Print progress or an error to stderr."""
    print(f"codemode-server: {escaped_lines(line)}", file=sys.stderr)


def is_confirmed(question: str) -> bool:
    """Ask the person. Raises `CodemodeError` if nobody can be asked."""
    if not sys.stdin.isatty():
        raise CodemodeError(
            "stdin is not a terminal, so you can't be asked; review what is shown above and rerun with --yes"
        )
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def load_with_warnings(config: Path | None) -> LoadedSettings:
    """The configuration; its warnings and the log go to stderr."""
    loaded = load(config)
    logs.start(None, LiveConfig(redactor=Redactor(loaded.secrets)))
    for line in loaded.all_messages:
        announce(line)
    return loaded
