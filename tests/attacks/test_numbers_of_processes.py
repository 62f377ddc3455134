"""Who connects to the running server is known by the number of the process, which another process can have later."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.startup import own_hosts
from tests.shared_server import short_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there the running server looks at the process")
CONNECTS = "import socket, sys; it = socket.socket(socket.AF_UNIX); it.connect(sys.argv[1])"
LEAVES_IT = """
import os
if os.fork():
    os._exit(0)
sys.stdin.read()
"""
"""The process ends and is waited for; its child has the connection until the end of the test."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with short_folder("peer-") as folder, socket.socket(socket.AF_UNIX) as it:
        it.bind(str(folder / "it.sock"))
        it.listen()
        yield it


def says_who_connected(listener: socket.socket) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(listener.getsockname())
        with listener.accept()[0] as other:
            try:
                os.close(other.getsockopt(socket.SOL_SOCKET, own_hosts._SO_PEERPIDFD))
            except OSError:
                return False
    return True


def test_a_connection_whose_process_has_gone_is_refused_whoever_has_its_number(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in a sandbox connects while the server is stopped, and ends; its child waits until the number belongs
    to a process that is in none."""
    if not says_who_connected(listener):
        pytest.skip("Linux before 6.5 does not say whether the process goes on")
    monkeypatch.setattr(own_hosts, "confinement", lambda *_: [])  # as if the number were another process's by now
    path = Path(listener.getsockname())
    for program, is_served in ((f"{CONNECTS}\nsys.stdin.read()", True), (f"{CONNECTS}\n{LEAVES_IT}", False)):
        command = [sys.executable, "-I", "-c", program, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            connection, _ = listener.accept()
            with connection:
                if not is_served:
                    process.wait(60)
                assert _is_served(connection) is is_served


def _is_served(connection: socket.socket) -> bool:
    try:
        return own_hosts.is_ours(connection)
    except OSError:
        return False
