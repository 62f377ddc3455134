"""The person's running server with hosts that attach to it: real processes, in a data folder of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from codemode_server.shim.attaching import asked
from codemode_server.shim.main import STANDALONE
from tests.waiting import PATIENCE_S
from tests.wire import Wire

ROOT = Path(__file__).parents[1]


class Person:
    """Somebody with hosts and servers on this machine."""

    def __init__(self, config: Path, data: Path) -> None:
        self.config, self.data = config, data
        self._hosts = ExitStack()
        own = {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(data), STANDALONE: "0"}
        self.environment = {**os.environ, **own}

    @property
    def run(self) -> Path:
        """The folder of the sockets."""
        return self.data / "codemode-server" / "run"

    def start(self, *wrapper: str, **environment: str) -> Wire:
        """A host's process, without a word from the host. `wrapper`: a command that gets it as its arguments."""
        host = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "codemode_server", "--config", str(self.config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment | environment,
        )
        self._hosts.callback(ended, host)
        return Wire(host)

    def host(self, **environment: str) -> Wire:
        """A host whose session has begun."""
        wire = self.start(**environment)
        assert "result" in wire.initialize()
        return wire

    def attach(self, session: str = "") -> tuple[socket.socket, dict[str, Any]]:
        """A connection to the running server without a host's process, and its answer; empty if it has closed it."""
        (path,) = self.run.glob("*.sock")
        hello = {"folder": "/", "environment": self.environment, "session": session}
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        connection.sendall(json.dumps(hello).encode() + b"\n")
        with connection.makefile("rb") as received:
            return connection, json.loads(received.readline() or b"{}")

    def servers(self) -> list[dict[str, Any]]:
        """What each running server says of itself, besides those that are ending."""
        found = []
        for path in sorted(self.run.glob("*.sock")):
            with suppress(OSError, ValueError):
                found.append(asked(path, "status"))
        return [it for it in found if it]

    def command(self, *words: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "codemode_server", *words, "--config", str(self.config)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout

    def end(self) -> None:
        pids = [it["pid"] for it in self.servers()]
        self._hosts.close()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid in pids:
            wait_for_end(pid)


@contextmanager
def person(config: Path) -> Iterator[Person]:
    """`config`: the configuration of all hosts."""
    with short_folder("shared-") as data:
        it = Person(config, data)
        try:
            yield it
        finally:
            it.end()


@contextmanager
def short_folder(prefix: str) -> Iterator[Path]:
    """A data folder whose path is short: those of sockets are bounded."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def ended(host: subprocess.Popen[str]) -> None:
    """End a host's process as a host does, by the end of its input."""
    with host:
        assert host.stdin is not None
        with suppress(BrokenPipeError):
            host.stdin.close()
        host.wait(PATIENCE_S)


def run(wire: Wire, code: str, **arguments: Any) -> str:
    """The text of the answer to a program, without the note of the time that it took, which a busy machine adds."""
    text = text_of(wire.ask("tools/call", name="execute_code", arguments={"code": code, **arguments}))
    return text.partition("\n[took")[0]


def text_of(answer: dict[str, Any]) -> str:
    assert "result" in answer, answer
    return str(answer["result"]["content"][0]["text"])


def is_running(pid: int) -> bool:
    """False also for a process that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    wait_until(lambda: not is_running(pid))


def wait_until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.02)
