"""Threat: what an upstream says, or a file that came with a repository, paints over what a command tells the person.

Rule: of such texts no control character and no hidden one reaches the terminal, on stdout or on stderr. What else they
say is shown.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.attacks.kit import hostile
from tests.behaviour.product import configuration

PAINT = "red\x1b[31m \x1b]0;title\x07 \x9b2J \x9d0;t\x9c \r\x08\u202eend"
"""As the hostile upstreams have it."""
UNFIT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")


def command(path: Path, *words: str) -> str:
    """What both streams show, as UTF-8 whatever bytes they are."""
    done = subprocess.run(
        fork_server.command("-m", "codemode_server", *words, "--config", str(path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONUTF8": "1"},
        check=False,
    )
    shown = done.stdout.decode("utf-8", "surrogateescape")
    assert "Traceback" not in shown, shown
    return shown


def test_what_upstreams_say_is_shown_and_written_without_what_paints(tmp_path: Path) -> None:
    servers: dict[str, Any] = {}
    for kind in ("terminal", "painted exit", "painted error"):
        servers |= hostile(tmp_path, kind, name=kind.replace(" ", "-"))
    path = configuration(tmp_path, servers)
    shown = command(path, "status", "--wait", "20")
    assert not UNFIT.search(shown), repr(shown)
    assert re.search(r"^painted-error: red", shown, re.MULTILINE), "control: the error is shown"
    assert re.search(r"^painted-exit: exited with code 3; .*\n    red", shown, re.MULTILINE), "control: and its stderr"
    assert re.search(r"^terminal: left out: actred", shown, re.MULTILINE), "control: and a tool's name"
    shown = command(path, "sync", str(tmp_path / "tree"), "--wait", "20")
    assert not UNFIT.search(shown), repr(shown)
    assert "missing: painted-error, painted-exit;" in shown, "control: the servers were asked"
    text = (tmp_path / "tree" / "terminal" / "act.py").read_text("utf-8")
    assert "red" in text, "control: the painted description is there"
    assert not UNFIT.search(text)


@pytest.mark.parametrize("words", ["config check", "doctor"])
def test_no_command_shows_what_paints_in_a_configuration(tmp_path: Path, words: str) -> None:
    upstream = {"command": f"/nowhere/{PAINT}", "args": [PAINT]}
    sandbox = {"backend": "wasm", PAINT: PAINT}
    path = configuration(tmp_path, {"own": upstream, "unknown": upstream | {PAINT: PAINT}}, sandbox=sandbox)
    shown = command(path, *words.split())
    assert not UNFIT.search(shown), repr(shown)
    assert re.search(r"red(\?|\\x1b)\[31m", shown), "control: the rest of it is shown"
