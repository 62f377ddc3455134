"""Processes that tests look at by their numbers."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from tests.waiting import PATIENCE_S, until


def is_gone(pid: int) -> bool:
    """Whether the process is no more. A zombie is gone: in a container there may be nobody to reap it."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return said.strip()[:1] in ("", "Z")


async def all_gone(*pids: int, within_s: float = PATIENCE_S) -> None:
    """Wait until none of the processes is left."""
    await until(lambda: all(map(is_gone, pids)), within_s)


def children(pid: int) -> dict[int, list[str]]:
    """The processes below a process, with their command lines."""
    found: dict[int, list[str]] = {}
    for child in _started_by(pid):
        with suppress(OSError):  # ended meanwhile
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            found |= children(child)
    return found


def _started_by(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found
