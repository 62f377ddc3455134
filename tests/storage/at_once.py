"""Processes that use one database at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTS = """
print("ready", flush=True)
sys.stdin.readline()
"""
"""In a process's code: here it waits until all are ready."""


def run_at_once(code: str, place: Path | str, *names: str) -> None:
    """Run the code with `[place, name]` as arguments, in a process for each name. All go on from `STARTS` before
    any is waited for, and all must succeed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(place), name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", process.communicate(timeout=60)
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * len(processes), ended
