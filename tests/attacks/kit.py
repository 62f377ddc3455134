"""What the attacks share: hostile upstreams, the raw channel as a program finds it, and what has to be true after."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.behaviour.product import Host, started
from tests.database import rows
from tests.processes import children

HOSTILE = Path(__file__).parent / "servers" / "hostile.py"

RAW = """
import gc, json, sys
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").endswith("wit_world"):
        raw = module
def send(**frame): raw.send(json.dumps(frame))
def receive(): return json.loads(raw.receive(-1))
def call(id, server, tool, **arguments):
    send(op="call", id=id, server=server, tool=tool, arguments=arguments)
    return receive()
"""
"""The channel beneath all that the guest offers, found by looking around, as a hostile program would."""


def hostile(folder: Path, kind: str, *, name: str | None = None, **settings: Any) -> dict[str, Any]:
    """The settings of one hostile upstream; its calls are noted in `<name>.log`."""
    log = folder / f"{name or kind}.log"
    return {name or kind: started(HOSTILE, kind, str(log)) | settings}


def arrived(folder: Path, name: str) -> list[str]:
    """The tools whose calls arrived at a hostile upstream, by the names it has for them."""
    log = folder / f"{name}.log"
    return [json.loads(line)["tool"] for line in log.read_text().splitlines()] if log.exists() else []


def recorded(folder: Path) -> list[tuple[str, str, str, str]]:
    """What the journal says of calls: server, tool, decision, status."""
    return rows(folder / "state", "SELECT server, tool, decision, status FROM calls ORDER BY started_at, seq")


async def is_well(host: Host) -> None:
    """The product goes on: the next program runs."""
    assert (await host.run("1+1")).value == 2


def workers(pid: int = 0) -> set[int]:
    """The sandbox's worker processes below a process, this one unless told otherwise."""
    return {child for child, command in children(pid or os.getpid()).items() if "serve" in command and "-I" in command}
