"""Prints for commands, and asks the person; no text can control the terminal. `person_confirms` and `show_person` use
the terminal itself: what is piped into a command, by a model's shell for instance, is no answer."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from codemode_server.cli import logs
from codemode_server.cli.arguments import config_file
from codemode_server.config import LoadedSettings, load
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError
from codemode_server.support.text import escaped_lines

HOW_TO_ADD = "`codemode-server import` takes over those of your hosts, `codemode-server add` adds one"
_NO_TERMINAL = (
    "this needs a person at a terminal, and there is none: a model that runs commands must not decide for the person. "
    "Run the same command in a terminal of your own."
)


def show(page: str) -> None:
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
    print(f"codemode-server: {escaped_lines(line)}", file=sys.stderr)


def is_confirmed(question: str, *, default: bool = False) -> bool:
    """Ask the person; `default` is the answer that only Enter gives. Raises `CodemodeError` if nobody can be asked."""
    if not sys.stdin.isatty():
        raise CodemodeError(
            "stdin is not a terminal, so you can't be asked; review what is shown above and rerun with --yes"
        )
    print(question, end="", flush=True)
    answer = sys.stdin.readline()
    return default if answer.strip() == "" and answer else answer.strip().casefold() in ("y", "yes")


def local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def configuration(parsed: argparse.Namespace, *, require_trust: bool = True, resolve: bool = True) -> LoadedSettings:
    """The configuration of a command, read as `load` says. Tells the person if hosts do not use that file."""
    loaded = load(config_file(parsed), require_trust=require_trust, resolve=resolve)
    if not loaded.is_trusted:
        announce(f"{loaded.path} is not trusted: used only where --config names it; what follows is about it")
    return loaded


def load_with_warnings(parsed: argparse.Namespace) -> LoadedSettings:
    """The configuration; its warnings and the log go to stderr."""
    loaded = configuration(parsed)
    logs.start(None, LiveConfig(redactor=loaded.redactor))
    for line in loaded.all_messages:
        announce(line)
    return loaded


def person_confirms(page: str, question: str) -> bool:
    """Show the page and ask; True if the person answers yes. Raises `CodemodeError` without a terminal."""
    with terminal() as (read, write):
        print(escaped_lines(f"{page}\n\n{question} [y/N] "), end="", file=write, flush=True)
        return read.readline().strip().casefold() in ("y", "yes")


def require_terminal() -> None:
    """Raises `CodemodeError` if the command does not run at a terminal."""
    with terminal():
        pass


def show_person(page: str) -> None:
    """Show something at the terminal itself, so that nothing that captures the command's output gets it."""
    with terminal() as (_, write):
        print(escaped_lines(page), file=write, flush=True)


@contextmanager
def terminal() -> Iterator[tuple[TextIO, TextIO]]:
    """To read from and write to the terminal. Raises `CodemodeError` if there is none."""
    names = ("CONIN$", "CONOUT$") if sys.platform == "win32" else ("/dev/tty", "/dev/tty")
    try:
        with open(names[0], encoding="utf-8") as read, open(names[1], "w", encoding="utf-8") as write:  # noqa: PTH123
            if not (read.isatty() and write.isatty()):
                raise CodemodeError(_NO_TERMINAL)
            _forget_typed_ahead(read)
            yield read, write
    except OSError as error:
        raise CodemodeError(_NO_TERMINAL) from error


def _forget_typed_ahead(read: TextIO) -> None:
    """Discard input that was typed before the question was shown."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(read.fileno(), termios.TCIFLUSH)
