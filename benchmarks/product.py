"""The product as a process of its own that serves HTTP, its host sessions, and the resources that it uses, from /proc.

The sessions speak MCP by hand over one connection: what is timed is the product, not a client library. Linux only.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.answering import free_port

HERE = Path(__file__).parent
UPSTREAM = str(HERE / "upstream.py")
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_START_SECONDS = 60.0
_END_SECONDS = 20.0
_STATUS = re.compile(r"^(VmHWM|VmRSS|PPid):\s+(\S+)", re.MULTILINE)


class NoAnswer(Exception):
    """Raised when the product did not answer a request, or answered that it could not."""


@dataclass
class HostSession:
    """One session of a host: a connection, and the session id that the product gave it."""

    port: int
    token: str
    timeout_s: float = 60.0
    _connection: http.client.HTTPConnection | None = None
    _session_id: str | None = None
    _last_id: int = 0

    def open(self) -> None:
        self.request("initialize", INITIALIZE)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        """End the session as the protocol has it."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self._send("DELETE", b"")
        self.disconnect()

    def another_connection(self) -> HostSession:
        """The same session on a connection of its own."""
        return replace(self, _connection=None)

    def break_connection(self) -> None:
        """Close it while another thread waits for an answer on it."""
        if self._connection is not None and self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(self, code: str, **arguments: Any) -> str:
        """What the model gets of a program."""
        return self.tool("execute_code", code=code, **arguments)

    def tool(self, name: str, **arguments: Any) -> str:
        """The text of a meta-tool's answer."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        return "\n".join(block.get("text", "") for block in result["content"])

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        return self._post({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})

    def post(self, body: bytes) -> dict[str, Any]:
        """The result of a request that was written before.

        Raises:
            NoAnswer: there is none.
        """
        try:
            response, data = self._send("POST", body)
        except (OSError, http.client.HTTPException) as error:
            self.disconnect()
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        if response.status == http.HTTPStatus.ACCEPTED:
            return {}
        if response.status != http.HTTPStatus.OK:
            raise NoAnswer(f"HTTP {response.status}: {data[:200].decode('utf-8', 'replace')}")
        self._session_id = response.headers.get("mcp-session-id") or self._session_id
        # Server-sent events: notifications may come first, the answer is last.
        events = [line[6:] for line in data.decode().splitlines() if line.startswith("data: {")]
        answer: dict[str, Any] = json.loads(events[-1]) if events else {}
        if "result" not in answer:
            raise NoAnswer(data[:200].decode("utf-8", "replace"))
        result: dict[str, Any] = answer["result"]
        return result

    def _post(self, message: dict[str, Any]) -> dict[str, Any]:
        return self.post(json.dumps(message).encode())

    def _send(self, verb: str, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self._session_id is not None:
            headers |= {"Mcp-Session-Id": self._session_id, "Mcp-Protocol-Version": "2025-11-25"}
        self._connection.request(verb, "/mcp", body, headers)
        response = self._connection.getresponse()
        return response, response.read()


def configuration(folder: Path, servers: dict[str, Any], **sections: Any) -> Path:
    """Write an upstream.yaml with a state folder of its own, ranked as an installation without extras ranks."""
    path = folder / "upstream.yaml"
    settings = {"servers": servers, "state": {"dir": str(folder / "state")}, "search": {"ranker": "static"}}
    path.write_text(json.dumps(settings | sections))
    return path


def stdio_upstream(*arguments: str) -> dict[str, Any]:
    """The entry of the benchmarks' upstream."""
    return {"command": sys.executable, "args": [UPSTREAM, *arguments]}


class Product:
    """One process of the product, from its start to its end; what it says on stderr goes to a file."""

    def __init__(self, folder: Path, servers: dict[str, Any], **sections: Any) -> None:
        """Start it and wait until it answers; its output and its temporary files are in `folder`, too."""
        self.config = configuration(folder, servers, **sections)
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        log, token = folder / "product.log", folder / "data" / "codemode-server" / "http-token"
        self.port = free_port()
        command = [sys.executable, "-m", "codemode_server", "--config", str(self.config), "serve", "--http"]
        own = {"XDG_DATA_HOME": str(folder / "data"), "TMPDIR": str(self.temporary), "PYTHONPATH": str(HERE.parent)}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, f"127.0.0.1:{self.port}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, **own},
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_listening():
            if not self.is_running or time.monotonic() > deadline:
                self._process.kill()
                raise NoAnswer(f"the product did not start: {log.read_text()[-2_000:]}")
            time.sleep(0.02)
        self.token = token.read_text().strip()

    def stop(self) -> None:
        """End it as a person does, or by force where that does not help."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def session(self, timeout_s: float = 60.0) -> HostSession:
        """An opened session of a host."""
        session = HostSession(self.port, self.token, timeout_s)
        session.open()
        return session

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _is_listening(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def children(pid: int) -> list[int]:
    """The processes below a process."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError, ProcessLookupError):
                own = [int(word) for word in path.read_text().split()]
                found += own
                waiting += own
    return found


def kind_of(pid: int) -> str:
    """What a process below the product is: worker, upstream, or helper for all others; empty if it is about to begin
    or has ended."""
    command, parent = _command(pid), _command(int(_status(pid, "PPid")))
    if not command or command == parent:  # a copy of the product that has not become another program yet
        return ""
    if is_worker(pid):
        return "worker"
    return "upstream" if any(word.endswith(("hostile.py", "upstream.py")) for word in command) else "helper"


def is_worker(pid: int) -> bool:
    command = _command(pid)
    return "serve" in command and "-I" in command


def processor_ms(pid: int) -> float:
    """Processor time of a process since its start, to the nanosecond; 0 if it has ended."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e6  # the kernel's number for the clock of that process
    except OSError:
        return 0.0


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def resident_mib(pid: int) -> float:
    return _status(pid, "VmRSS") / 1024


def peak_mib(pid: int) -> float:
    """The most since the process began, or since `reset_peak`."""
    return _status(pid, "VmHWM") / 1024


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> float:
    """0 if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((float(value) for key, value in _STATUS.findall(text) if key == name), 0.0)
