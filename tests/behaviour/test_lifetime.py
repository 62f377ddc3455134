"""Nothing outlives the product: after the host closes stdin, ends it, or it is killed, no process of it is left.

The upstream is the worst there is: it ignores the end of its stdin and SIGTERM, and has a child of the same kind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import all_gone, children, is_gone
from tests.waiting import until

from .product import configuration
from .test_internal_errors import PLAIN, product

pytestmark = pytest.mark.slow

STUBBORN = """\
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "stubborn", "version": "1"}}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "stay", "inputSchema": {"type": "object"}}]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
time.sleep(600)
"""


def close_stdin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")
@pytest.mark.parametrize(
    ("end", "within_s"),
    [
        (close_stdin, 2.0),
        (lambda process: process.send_signal(signal.SIGTERM), 4.0),
        (lambda process: process.kill(), 6.0),
    ],
    ids=["the host closes stdin", "the host ends it", "it is killed"],
)
async def test_nothing_is_left(tmp_path: Path, end: Callable[[subprocess.Popen[str]], None], within_s: float) -> None:
    script, told = tmp_path / "stubborn.py", tmp_path / "pids"
    script.write_text(STUBBORN)
    path = configuration(tmp_path, {"stubborn": {"command": sys.executable, "args": [str(script), str(told)]}})
    try:
        with product(path, PLAIN) as wire:
            wire.initialize()
            called = wire.ask("tools/call", name="execute_code", arguments={"code": "1 + 1"})
            assert "succeeded" in str(called)
            await until(lambda: told.exists() and len(told.read_text().split()) >= 2)
            pids = set(children(wire.process.pid)) | set(map(int, told.read_text().split()))
            assert len(pids) >= 4, "control: the upstream, its child, a sandbox and the reaper are there"
            assert not any(map(is_gone, pids))
            end(wire.process)
            await all_gone(*pids, wire.process.pid, within_s=within_s + 4)
    finally:
        for pid in map(int, told.read_text().split() if told.exists() else ()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
