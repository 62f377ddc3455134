"""`codemode-server ui` as a person starts it: a real process at a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest

from tests.behaviour.product import configuration

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")]


def test_the_address_is_shown_at_the_terminal_and_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    import pty

    path = configuration(tmp_path, {})
    output = tmp_path / "output"
    pid, terminal = pty.fork()
    if pid == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        command = [sys.executable, "-m", "codemode_server", "ui", "--no-browser", "--config", str(path)]
        os.execv(sys.executable, command)
    text = ""
    while "Ctrl+C" not in text:
        text += os.read(terminal, 1_000).decode()
    (address,) = re.findall(r"http://127[.\d]+:\d+/open/\S+", text)
    with httpx2.Client() as browser:
        entered = browser.get(address)
        (page,) = re.findall(r'href="(/s/[^"]+/executions)"', entered.text)
        assert "No executions are recorded yet." in browser.get(address.partition("/open/")[0] + page).text
        os.kill(pid, signal.SIGINT)
        _, status = os.waitpid(pid, 0)
        with pytest.raises(httpx2.ConnectError):
            browser.get(address)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert output.read_text() == "", "what captures the output gets no address"
