"""An error that nothing foresaw while the product is built or runs: a host that keeps stdin open is answered, the log
has the traceback, and the process ends when the host does.

Raw lines to a real child process, in which one function of the product raises.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wire import Wire

from .product import configuration

pytestmark = pytest.mark.slow

SECRET = "correct-horse-battery-staple"
FAULT = f"""
import {{0}}
def fail(*args, **kwargs):
    raise RuntimeError("injected {SECRET}")
{{0}}.{{1}} = fail
from codemode_server.__main__ import main
main()
"""
PLAIN = "from codemode_server.__main__ import main; main()"
FAULTS = {
    "while the product is built": ("codemode_server.executions.workspace", "Workspace.make"),
    "while its parts are started": ("codemode_server.executions.service", "ExecutionService.open"),
    "while the configuration is read": ("codemode_server.config", "load"),
}


def servers_of(wire: Wire) -> str:
    """What a host gets of a call, after the handshake."""
    assert wire.initialize()["result"]["serverInfo"]["name"] == "codemode-server"
    assert len(wire.ask("tools/list")["result"]["tools"]) == 4
    called = wire.ask("tools/call", name="list_dir", arguments={"path": "/servers"})
    text: str = called["result"]["content"][0]["text"]
    return text


@contextmanager
def product(path: Path, code: str) -> Iterator[Wire]:
    command = [sys.executable, "-c", code, "--config", str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        watchdog = threading.Timer(100, process.kill)  # a host that gets no answer would wait for ever
        watchdog.start()
        try:
            yield Wire(process)
        finally:
            watchdog.cancel()
            process.kill()


def settings(folder: Path) -> Path:
    """One server that is switched off, with a secret."""
    off = {"command": "true", "enabled": False, "env": {"API_TOKEN": SECRET}}
    return configuration(folder, {"off": off})


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_host_is_answered_and_the_log_has_the_traceback(tmp_path: Path, fault: str | None) -> None:
    """Without a fault, the control, the servers are listed."""
    with product(settings(tmp_path), PLAIN if fault is None else FAULT.format(*FAULTS[fault])) as wire:
        text = servers_of(wire)
        _, told = wire.process.communicate(timeout=60)  # closes stdin, as a host does
    assert ("internal error; the log has the details: " in text) is (fault is not None)
    assert wire.process.returncode == (0 if fault is None else 1)
    assert ("RuntimeError: injected" in told) is (fault is not None)
    log = tmp_path / "state" / "logs" / "codemode.log"
    if fault and "configuration" not in fault:  # which says where the log and the secrets are
        assert str(log) in text
        assert "RuntimeError: injected" in log.read_text()
        assert SECRET not in text + told + log.read_text()
