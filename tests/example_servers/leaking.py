"""A process that leaks what it is told to on stdin: `leaking.py TEMPORARY STATE`. The control of the soak's bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

MIB = 2**20
TEMPORARY, STATE = map(Path, sys.argv[1:3])
WAITING = (
    "import sys\nprint(flush=True)\nsys.stdin.readline()\nx = b'x' * 100 * 2**20\nprint(flush=True)\nsys.stdin.read()"
)
KEPT: list[Any] = []
CHILDREN: list[subprocess.Popen[bytes]] = []


def start(*arguments: str) -> None:
    """A child that grows by 100 MiB when it gets a line."""
    command = [sys.executable, "-I", "-c", WAITING, *arguments]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    CHILDREN.append(child)


def grow() -> None:
    child = CHILDREN[-1]
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    child.stdout.readline()


def leak(what: str) -> None:
    match what:
        case "memory":
            KEPT.append(b"x" * 56 * MIB)
        case "descriptors":
            KEPT.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(9))
        case "threads":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        case "workers":
            start("serve")
        case "upstreams":
            start("upstream.py")
        case "helpers":
            start()
        case "worker_memory" | "helper_memory":
            grow()
        case "zombies":
            child = subprocess.Popen(["true"])
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            KEPT.append(child)
        case "temporary":
            (TEMPORARY / "codemode-tmp-1").mkdir()
        case "artifacts":
            (STATE / "kept" / "x1").write_bytes(bytes(65 * MIB))
        case "workspace":
            (STATE / "workspaces" / "x1").write_bytes(bytes(2 * MIB))
        case "database":
            (STATE / "codemode.db-wal").write_bytes(bytes(5 * MIB))
        case "log":
            (STATE / "logs" / "codemode.log").write_bytes(bytes(5 * MIB))


for line in sys.stdin:
    if line == "end\n":
        break
    leak(line.strip())
    print(line.strip(), flush=True)
for one in CHILDREN:
    one.kill()
    one.wait()
