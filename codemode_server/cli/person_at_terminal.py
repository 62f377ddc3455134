"""Asks the person at the terminal itself: what is piped into a command, by a model's shell for instance, is no answer.

A program that makes a terminal of its own can still answer; `docs/security.md` says what that means.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from codemode_server.domain.errors import CodemodeError
from codemode_server.text import escaped_lines


def person_confirms(page: str, question: str) -> bool:
    """Show the page and ask; whether the person answers yes. Raises `CodemodeError` if the command does not run at a
    terminal."""
    with terminal() as (read, write):
        print(escaped_lines(f"{page}\n\n{question} [y/N] "), end="", file=write, flush=True)
        return read.readline().strip().casefold() in ("y", "yes")


def require_terminal() -> None:
    """Raises `CodemodeError` if the command does not run at a terminal."""
    with terminal():
        pass


def show_person(page: str) -> None:
    """Show something at the terminal itself, so that nothing that captures the command's output gets it. Raises
    `CodemodeError` if the command does not run at a terminal."""
    with terminal() as (_, write):
        print(escaped_lines(page), file=write, flush=True)


@contextmanager
def terminal() -> Iterator[tuple[TextIO, TextIO]]:
    """To read from and write to the terminal. Raises `CodemodeError` if the command does not run at one."""
    names = ("CONIN$", "CONOUT$") if sys.platform == "win32" else ("/dev/tty", "/dev/tty")
    try:
        with open(names[0], encoding="utf-8") as read, open(names[1], "w", encoding="utf-8") as write:  # noqa: PTH123
            if not (read.isatty() and write.isatty()):
                raise CodemodeError(_NO_TERMINAL)
            _forget_typed_ahead(read)
            yield read, write
    except OSError as error:
        raise CodemodeError(_NO_TERMINAL) from error


_NO_TERMINAL = (
    "this needs a person at a terminal, and there is none: a model that runs commands must not decide for the person. "
    "Run the same command in a terminal of your own."
)


def _forget_typed_ahead(read: TextIO) -> None:
    """Discard input that was typed before the question was shown."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(read.fileno(), termios.TCIFLUSH)
