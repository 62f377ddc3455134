"""What a host waits for at the start: from the start of the process to the answers of `initialize` and `tools/list`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
UPSTREAM = str(HERE / "upstream.py")
SERVERS, TOOLS_EACH = 50, 60
_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
REQUESTS: tuple[dict[str, object], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


@dataclass(frozen=True)
class Comparison:
    """The product over a bare `MCPServer` with one tool; milliseconds are medians."""

    ratio: float
    ours_ms: float
    peer_ms: float
    least_ratio: float


def measure(search: dict[str, str], runs: int = 11) -> tuple[Comparison, Comparison]:
    """`initialize` and `tools/list`, product and peer in turn; the product knows all tools from an earlier start."""
    with tempfile.TemporaryDirectory() as folder:
        upstream = {"command": sys.executable, "args": [UPSTREAM, str(TOOLS_EACH)]}
        config = Path(folder) / "upstream.yaml"
        servers = {f"up{number}": upstream for number in range(SERVERS)}
        config.write_text(json.dumps({"servers": servers, "state": {"dir": f"{folder}/state"}, "search": search}))
        product = [sys.executable, "-m", "codemode_server", "--config", str(config)]
        peer = [sys.executable, str(HERE / "bare.py")]
        _fill_cache(config, Path(folder) / "stubs")
        for command in (peer, product):
            _start(command)  # the first start compiles and fills the disk cache
        pairs = [(_start(peer), _start(product)) for _ in range(runs)]
    initialize, tools_list = ([(theirs[at], ours[at]) for theirs, ours in pairs] for at in (0, 1))
    return _compare(initialize), _compare(tools_list)


def _fill_cache(config: Path, stubs: Path) -> None:
    command = [sys.executable, "-m", "codemode_server", "sync", "--config", str(config), "--wait", "200", str(stubs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE.parent)
    written = sum(1 for path in stubs.glob("*/*.py") if path.name != "__init__.py")
    assert written == SERVERS * TOOLS_EACH, f"{written} stubs"


def _start(command: list[str]) -> list[float]:
    """Seconds from the start of the process to each answer."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE.parent
    )
    assert process.stdin is not None
    assert process.stdout is not None
    times = []
    for request in REQUESTS:
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


def _compare(pairs: list[tuple[float, float]]) -> Comparison:
    theirs, ours = zip(*pairs, strict=True)
    our_s, peer_s = statistics.median(ours), statistics.median(theirs)
    return Comparison(our_s / peer_s, our_s * 1e3, peer_s * 1e3, min(ours) / min(theirs))
