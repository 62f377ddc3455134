"""What 50 upstreams cost a host: the answers of `initialize` and `tools/list` after a start, and memory when idle."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.product import HERE, INITIALIZE, UPSTREAM, Product, resident_mib, stdio_upstream
from benchmarks.report import Row

SERVERS, TOOLS_EACH = 50, 60
RUNS = 11
MAX_IDLE_MIB = 132.0
"""Measured: 128; 161 before the kernel of layers. The MCP library alone takes 63, the product without servers 100."""
_SETTLE_SECONDS = 200.0
_REQUESTS: tuple[dict[str, object], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def rows() -> list[Row]:
    """The product and a bare `MCPServer` in turn; the product knows all tools from an earlier start."""
    upstreams = f"{SERVERS} upstreams with {SERVERS * TOOLS_EACH:,} tools"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        product = Product(folder, {f"up{number}": stdio_upstream(str(TOOLS_EACH)) for number in range(SERVERS)})
        try:
            idle_mib = _idle_mib(product)
        finally:
            product.stop()
        own = [sys.executable, "-m", "codemode_server", "serve", "--standalone", "--config", str(product.config)]
        peer = [sys.executable, UPSTREAM]
        for command in (peer, own):
            _start(command)  # the first start compiles and fills the disk cache
        pairs = [(_start(peer), _start(own)) for _ in range(RUNS)]
    found = []
    for at, what, limit in ((0, "host handshake", 0.5), (1, "start to the list of the four tools", 1.3)):
        theirs, ours = [pair[0][at] for pair in pairs], [pair[1][at] for pair in pairs]
        our_s, peer_s = statistics.median(ours), statistics.median(theirs)
        ratio = our_s / peer_s
        measured = (
            f"{ratio:.2f} x ({our_s * 1e3:.0f} over {peer_s * 1e3:.0f} ms; least {min(ours) / min(theirs):.2f} x)"
        )
        found.append(Row(f"{what}, {upstreams}, over a bare MCPServer", measured, f"under {limit} x", ratio < limit))
    budget = f"under {MAX_IDLE_MIB:.0f} MiB"
    found.append(Row(f"idle memory of the host, {upstreams}", f"{idle_mib:.0f} MiB", budget, idle_mib < MAX_IDLE_MIB))
    return found


def _idle_mib(product: Product) -> float:
    """Memory of the product's process once all upstreams are connected and two programs have run."""
    session = product.session()
    deadline = time.monotonic() + _SETTLE_SECONDS
    while "connecting" in (servers := session.tool("list_dir", path="/servers")) or "waiting" in servers:
        assert time.monotonic() < deadline, servers
        time.sleep(1)
    for _ in range(2):
        assert session.run("1 + 1").split() == ["value:", "2"]
    time.sleep(3)
    return resident_mib(product.pid)


def _start(command: list[str]) -> list[float]:
    """Seconds from the start of the process to each answer."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE.parent
    )
    assert process.stdin is not None
    assert process.stdout is not None
    times = []
    for request in _REQUESTS:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if "id" in request:
            answer = json.loads(process.stdout.readline())
            times.append(time.perf_counter() - started)
            assert answer["id"] == request["id"], answer
            assert "result" in answer, answer
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    return times
