"""What only a person at a terminal confirms: the command is a real process, with and without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")

ASK = """\
from codemode_server.cli.terminal import person_confirms
from codemode_server.domain.errors import CodemodeError
try:
    print(f"<{person_confirms('the page' + chr(27) + '[2J', 'Sure?')}>")
except CodemodeError as error:
    print(error)
"""


def test_without_a_terminal_nobody_confirms_whatever_stdin_says() -> None:
    ran = subprocess.run(  # its own session has no terminal
        [sys.executable, "-c", ASK], input="y\ny\n", text=True, capture_output=True, start_new_session=True, check=True
    )
    assert "needs a person at a terminal" in ran.stdout
    assert "<" not in ran.stdout


@pytest.mark.parametrize(("typed", "is_confirmed"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_the_person_answers(typed: str, *, is_confirmed: bool) -> None:
    """Also if stdin is something else; what is shown can't control the terminal."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(sys.executable, [sys.executable, "-c", ASK])
    shown = _read_until(terminal, "[y/N] ")
    os.write(terminal, typed.encode())
    answered = _read_until(terminal, ">")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert "the page\\x1b[2J" in shown
    assert f"<{is_confirmed}>" in answered


def _read_until(terminal: int, end: str) -> str:
    text = ""
    while end not in text:
        text += os.read(terminal, 1_000).decode()
    return text
