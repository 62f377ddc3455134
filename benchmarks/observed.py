"""What it costs a call to be seen: one product with traces, metrics and the pages open, beside one without, in turns.

The audit is on in both, since it can't be switched off; here one writes sizes and types, as by default, and the other
nothing of values. A collector and the pages are processes of their own, and somebody looks at the pages all the time.
"""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from benchmarks.product import HERE, HostSession, Product, cpu_seconds, peak_mib, reset_peak, resident_mib

CALLS, ROUNDS, MANY = 100, 32, 10_000
_WARM_CALLS = 300
_SPANS_OF_A_CALL = 2
_LOOK_SECONDS = 1.0
_LAST_SECONDS = 2.0
"""Until the last spans have come."""
_PROGRAM = "from servers.bench import echo\nfor n in range({calls}):\n    echo(number=n)\nn"


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured. Times are of one call."""

    seen_ms: float
    unseen_ms: float
    """Medians of rounds, each of one program in either product, one after the other."""
    seen_cpu_ms: float
    unseen_cpu_ms: float
    """What the process of the product used of the processors."""
    dropped: int
    """Spans that the collector did not get."""
    memory_mib: float
    """What 10,000 calls of one program added to the process at the most, seen."""

    @property
    def ratio(self) -> float:
        return self.seen_ms / self.unseen_ms


def measure() -> Cost:
    with tempfile.TemporaryDirectory() as text, ExitStack() as stack:
        folder = Path(text)
        collector = stack.enter_context(_child("collector"))
        otlp = f"http://127.0.0.1:{_line(collector)}/v1"
        seen: dict[str, Any] = {
            "tracing": {"otlp_endpoint": f"{otlp}/traces"},
            "metrics": {"otlp_endpoint": f"{otlp}/metrics", "http": True},
        }
        products = [_product(folder / "seen", **seen), _product(folder / "unseen", payloads="none")]
        sessions = []
        for product in products:
            product.start()
            stack.callback(product.stop)
            sessions.append(_warm(product.session(timeout_s=300)))
        stack.enter_context(_child("page", str(products[0].config)))
        rounds, before = [], [cpu_seconds(product.pid) for product in products]
        for number in range(ROUNDS):
            order = (0, 1) if number % 2 else (1, 0)
            found = {which: _call_ms(sessions[which]) for which in order}
            rounds.append((found[0], found[1]))
        used = [cpu_seconds(product.pid) - earlier for product, earlier in zip(products, before, strict=True)]
        added_mib = _added_mib(products[0], sessions[0])
        time.sleep(_LAST_SECONDS)
        calls = _WARM_CALLS + ROUNDS * (CALLS + 1 + 1) + MANY
        return Cost(
            seen_ms=statistics.median(one for one, _ in rounds),
            unseen_ms=statistics.median(other for _, other in rounds),
            seen_cpu_ms=used[0] / (ROUNDS * CALLS) * 1e3,
            unseen_cpu_ms=used[1] / (ROUNDS * CALLS) * 1e3,
            dropped=_SPANS_OF_A_CALL * calls - int(_http_text(otlp, "/count")),
            memory_mib=added_mib,
        )


def _product(folder: Path, *, payloads: str = "shapes", **sections: Any) -> Product:
    folder.mkdir()
    config = folder / "upstream.yaml"
    configuration = {
        "servers": {"bench": {"command": sys.executable, "args": [str(HERE / "upstream.py")]}},
        "state": {"dir": str(folder / "state"), "payloads": payloads},
        "search": {"ranker": "lexical"},
        "limits": {"calls": MANY, "upstream_seconds": 300, "wall_seconds": 300},
        **sections,
    }
    config.write_text(json.dumps(configuration))
    return Product(config, folder)


def _warm(session: HostSession) -> HostSession:
    while "connecting" in session.tool("list_dir", path="/servers"):
        time.sleep(0.1)
    _run(session, _WARM_CALLS)
    return session


def _run(session: HostSession, calls: int) -> float:
    """Seconds of a program with so many calls."""
    began = time.perf_counter()
    text = session.run(_PROGRAM.format(calls=calls))
    took = time.perf_counter() - began
    assert f"value:\n{calls - 1}" in text, text
    return took


def _call_ms(session: HostSession) -> float:
    session.disconnect()  # the product closes a connection that nothing came over while the other product was measured
    return (_run(session, CALLS + 1) - _run(session, 1)) / CALLS * 1e3


def _added_mib(product: Product, session: HostSession) -> float:
    session.disconnect()
    before = resident_mib(product.pid)
    reset_peak(product.pid)
    _run(session, MANY)
    return peak_mib(product.pid) - before


@contextmanager
def _child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.observed", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def _http_text(address: str, path: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def collect() -> None:
    """A collector that counts the spans of calls."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    counts: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("traces"):
                request = ExportTraceServiceRequest.FromString(body)
                found = [span.name for it in request.resource_spans for scope in it.scope_spans for span in scope.spans]
                counts.append(sum(name in ("execute_tool bench.echo", "tools/call echo") for name in found))
            self._answer(b"")

        def do_GET(self) -> None:
            self._answer(str(sum(counts)).encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


async def look(config: Path) -> None:
    """The pages, and a browser that shows the list of executions."""
    import httpx2

    from codemode_server.cli.ui import opened
    from codemode_server.config import load

    async with opened(load(config)) as address, httpx2.AsyncClient() as browser:
        entered = await browser.get(address)
        (path,) = re.findall(r"url=(/\S+?)\"", entered.text)
        while True:
            (await browser.get(entered.url.join(path))).raise_for_status()
            await anyio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    if sys.argv[1:] == ["collector"]:
        collect()
    elif sys.argv[1:2] == ["page"]:
        anyio.run(look, Path(sys.argv[2]))
    else:
        print(measure())
