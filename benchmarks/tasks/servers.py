"""The published servers of the tasks, locked in requirements/ and installed once, each behind the recorder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Place
from scripts import real_servers
from scripts.npm import commands_of, node_folder

RECORDER = Path(__file__).with_name("recorder.py")
EVERYDAY = ("git", "time", "orders", "filesystem", "memory", "calc")
"""Those that the demo has, too."""
OTHERS = ("fetch", "excel", "github", "playwright")
MANY = (*EVERYDAY, *OTHERS)
"""All of them: 209 tools."""


@dataclass(frozen=True)
class Recorded:
    """A call that reached a server."""

    tool: str
    arguments: dict[str, Any]
    sent_bytes: int
    bytes: int
    failed: bool
    seconds: float


def entries(place: Place, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How these servers are started on the data of a run: `command`, `args` and `env`.

    Raises:
        Unavailable: PyPI or npm can't be had.
    """
    commands = real_servers.commands([name for name in names if name in EVERYDAY])
    if any(name in OTHERS for name in names):
        lock = real_servers.ROOT / "requirements" / "servers-tasks.txt"
        wanted = ("--require-hashes", "--requirement", str(lock))
        python = real_servers.environment("servers/tasks", wanted, lock.read_text())
        node = str(node_folder() / "node")
        commands |= {
            "fetch": [str(python.with_name("mcp-server-fetch")), "--allow-private-ips"],
            "excel": [str(python.with_name("excel-mcp-server")), "stdio"],
            "github": [node, str(commands_of("tasks") / "mcp-server-github")],
            "playwright": [node, str(commands_of("tasks") / "playwright-mcp")],
        }
    capabilities = "vision,pdf,devtools,network,storage,testing,config"
    arguments = {
        "git": ["--repository", str(place.repository)],
        "time": ["--local-timezone", "UTC"],
        "orders": ["--db-path", str(place.database)],
        "filesystem": [str(place.files)],
        "excel": ["--allow-dir", str(place.files)],
        "playwright": ["--headless", f"--caps={capabilities}", f"--output-dir={place.folder / 'browser'}"],
    }
    environment = {"memory": {"MEMORY_FILE_PATH": str(place.memory)}}
    return {
        name: {
            "command": sys.executable,
            "args": ["-I", "-S", str(RECORDER), str(_log(place)), name, *commands[name], *arguments.get(name, [])],
            "env": environment.get(name, {}),
        }
        for name in names
    }


def recorded(place: Place) -> list[Recorded]:
    """The calls that have reached a server in this run, in the order of their answers."""
    log = _log(place)
    return [Recorded(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def _log(place: Place) -> Path:
    return place.folder / "calls.jsonl"
