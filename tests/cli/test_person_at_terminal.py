"""A person at a terminal confirms, whatever stdin is; without a terminal nobody does (the tests of the commands)."""

from __future__ import annotations

import sys

import pytest

from .pseudo_terminal import at_terminal

ASK = """\
import os
from codemode_server.cli.terminal import person_confirms
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
print(f"<{person_confirms('the page' + chr(27) + '[2J', 'Sure?')}>")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("typed", "is_confirmed"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_the_person_answers(typed: str, *, is_confirmed: bool) -> None:
    """What is shown can't control the terminal."""
    shown = at_terminal([sys.executable, "-c", ASK], ("[y/N] ", typed))
    assert "the page\\x1b[2J" in shown
    assert f"<{is_confirmed}>" in shown
