"""Writes what it is told to a file, one entry for each call: `diary.py FILE`. A second entry with the same text is a
call that was made twice."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
from tests.example_servers.plain import Call, Server, ToolError

server = Server("diary")
path = Path(sys.argv[1])
has_grown = threading.Condition()


def entries() -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def append(text: str) -> int:
    with has_grown, path.open("a") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())  # so that it survives whatever is killed
        has_grown.notify_all()
    return len(entries())


@server.tool()
def write(text: str) -> int:
    """Writes an entry and returns its number."""
    return append(text)


@server.tool()
def write_and_wait(call: Call, text: str) -> int:
    """Writes an entry, and does not answer."""
    number = append(text)
    call.cancelled.wait()
    return number


@server.tool()
def write_and_hold(call: Call, text: str, until: str) -> int:
    """Writes an entry, and answers once there is the entry `until`."""
    number = append(text)
    with has_grown:
        has_grown.wait_for(lambda: until in entries() or call.cancelled.is_set(), timeout=60)
    return number


@server.tool()
def write_and_fail(text: str) -> int:
    """Writes an entry and fails."""
    append(text)
    raise ToolError("the diary is full")


@server.tool()
def record(run: int, number: int) -> int:
    """Writes an entry of two numbers."""
    return append(json.dumps([run, number]))


@server.tool(annotations={"readOnlyHint": True})
def recall(run: int, number: int) -> int:
    """As `record`, for a call that only reads: its entry has a third element."""
    return append(json.dumps([run, number, "read"]))


@server.tool(annotations={"readOnlyHint": True})
def count() -> int:
    """The number of entries; this one is added."""
    return append("(count)")


server.run()
