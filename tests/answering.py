"""HTTP servers on loopback: one that answers as a test says, and programs that serve at a port."""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2

from tests import fork_server


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    headers: Message
    body: bytes


@contextmanager
def answering(answer: Callable[[Asked], tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """Its address until the block is left; `answer` gives status, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, content = answer(Asked(self.command, self.path, self.headers, body))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                with suppress(OSError):  # cut off
                    self.wfile.write(content)

        do_POST = do_DELETE = do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


_PORTS, _WORKERS = range(10_000, 32_000), 64
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_numbers = itertools.count(random.SystemRandom().randrange(len(_PORTS)))


def free_port() -> int:
    """A port for a server that starts later: below those that the system gives to connections meanwhile, none that
    another process of this run takes, and not twice the same one."""
    own = _PORTS[_worker::_WORKERS]
    while True:
        port = own[next(_numbers) % len(own)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def served(script: Path, *arguments: object, port: int = 0, env: dict[str, str] | None = None) -> Iterator[str]:
    """The address of the MCP server `script PORT ARGUMENTS…`, once it answers."""
    port = port or free_port()
    process = subprocess.Popen(
        fork_server.command(str(script), str(port), *map(str, arguments)),
        env=os.environ | (env or {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=12)) as client:  # each waits longer
            client.get(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()
