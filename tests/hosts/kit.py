"""What the tests of this folder share: the official tools, the product behind an address, and who is still running."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from codemode_server.domain.approvals import ApprovalAnswer
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from tests import fork_server
from tests.answering import free_port
from tests.behaviour.product import Host, configuration, office
from tests.database import rows
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
PRODUCT = (sys.executable, "-m", "codemode_server")
SESSION_HEADER = "mcp-session-id"
Mode = Literal["auto", "legacy"]


def forked_product() -> tuple[str, ...]:
    """The product's command, for tests that are not about how it starts."""
    return tuple(fork_server.command("-m", "codemode_server"))


def configured(folder: Path, *names: str, **sections: Any) -> Path:
    """These office servers with a state of their own; each process they start names `folder` in its command line."""
    servers = office(folder, *names, is_forked=False)
    for server in servers.values():
        server["args"].append(str(folder))
    return configuration(folder, servers, **sections)


def installed_command(folder: Path) -> Path:
    """The installed command; where the project runs without being installed, what pip would have written."""
    installed = Path(sys.executable).with_name("codemode-server")
    if installed.exists():
        return installed
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["codemode-server"]
    module, function = entry.split(":")
    script = folder / "codemode-server"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from {module} import {function}\n{function}()\n"
    )
    script.chmod(0o755)
    return script


@dataclass(frozen=True)
class NodeTools:
    """Where the commands of a set and their Node are, as a PATH."""

    path: str

    def environment(self, **more: str) -> dict[str, str]:
        """Ours, with their PATH and these variables."""
        path = f"{self.path}{os.pathsep}{os.environ['PATH']}"
        cache = str(ROOT / ".cache" / "node")
        return {**os.environ, "PATH": path, "NO_COLOR": "1", "NODE_COMPILE_CACHE": cache, **more}


@dataclass(frozen=True)
class Served:
    """A process that serves the product over HTTP."""

    process: subprocess.Popen[bytes]
    port: int
    data: Path
    """Its user's data folder."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def token(self) -> str:
        return (self.data / "codemode-server" / "http-token").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        """What a host's entry must have."""
        return {"Authorization": f"Bearer {self.token}"}


@contextmanager
def serving(config: Path, *more: str, is_forked: bool = True) -> Iterator[Served]:
    """The product over HTTP, until the block is left; a second look says that nothing of it stayed behind. The process
    id of a fork is the one of its relay."""
    product = forked_product() if is_forked else PRODUCT
    port, data = free_port(), config.parent / "data"
    errors = config.parent / f"stderr-{port}.log"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            (*product, "serve", "--http", f"127.0.0.1:{port}", "--config", str(config), *more),
            cwd=ROOT,
            env={**os.environ, "XDG_DATA_HOME": str(data)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, errors.read_text()
        yield Served(process, port, data)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(is_so: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait for what only looking tells."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)


@dataclass(frozen=True)
class Process:
    """A line of `ps`."""

    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """All that run on this machine. A zombie does not: in a container there may be nobody to reap it."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,command="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(None, 3) for line in listed.splitlines())
    return [Process(int(row[0]), int(row[1]), row[3]) for row in rows if len(row) == 4 and row[2][0] != "Z"]


def descendants(pid: int) -> list[Process]:
    """All that `pid` started, and they in turn; sessions of their own do not hide them."""
    running, found = processes(), [pid]
    for parent in found:
        found.extend(process.pid for process in running if process.parent == parent)
    return [process for process in running if process.pid in found[1:]]


def reached(folder: Path) -> list[dict[str, Any]]:
    """The calls that came to the office servers, in order."""
    log = folder / "office.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def recorded_sessions(folder: Path) -> dict[str, str]:
    """The session of each execution, in order."""
    return dict(rows(folder / "state", "SELECT execution_id, session_id FROM executions ORDER BY started_at"))


async def approved(folder: Path, key: str | None = None) -> int:
    """How many questions were open; the person approves all. `key`: `state.key`."""
    with closing(DatabaseThread(folder / "state")) as thread:
        store = ApprovalStore(thread, JournalCipher(folder / "state", key))
        asked = await store.unanswered(Principal(PrincipalId("default")))
        for question in asked:
            await store.answer(question.approval_id, ApprovalAnswer(True, channel="command"))
    return len(asked)


@dataclass
class HttpHost(Host):
    """A host over HTTP, and the header as it was sent and as it was issued."""

    sent: list[str | None] = field(default_factory=list)
    issued: set[str] = field(default_factory=set)

    async def execute(self) -> str:
        """Run a program; gives the execution."""
        answer = await self.run("6 * 7")
        assert answer.value == 42
        return str(answer.content["execution_id"])


@asynccontextmanager
async def http_host(
    served: Served, folder: Path, mode: Mode, *, callbacks: Any = None, **headers: str
) -> AsyncIterator[HttpHost]:
    """`callbacks` are the host's features."""
    sent: list[str | None] = []
    issued: set[str] = set()

    async def note_sent(request: httpx2.Request) -> None:
        sent.append(request.headers.get(SESSION_HEADER))

    async def note_issued(response: httpx2.Response) -> None:
        if SESSION_HEADER in response.headers:
            issued.add(response.headers[SESSION_HEADER])

    hooks: dict[str, list[Any]] = {"request": [note_sent], "response": [note_issued]}
    async with (
        httpx2.AsyncClient(headers={**served.headers, **headers}, event_hooks=hooks, timeout=60) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode, **(callbacks or {})) as client,
    ):
        yield HttpHost(client, folder, sent, issued)


def posted(served: Served, method: str, params: dict[str, Any], *headers: tuple[str, str]) -> int:
    """How a request of the handshake's era is answered that has these headers as well; they may repeat."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    usual = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2025-11-25",
        **served.headers,
    }
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        connection.putrequest("POST", "/mcp", skip_host=any(name == "Host" for name, _ in headers))
        for name, value in (*usual.items(), ("Content-Length", str(len(body))), *headers):
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.read()
        return answer.status
