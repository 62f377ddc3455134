"""The published servers of the tasks, locked in requirements/ and installed once, each behind the recorder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Call, Place
from scripts import real_servers
from scripts.npm import commands_of, node_folder

RECORDER = Path(__file__).with_name("recorder.py")
EVERYDAY = ("git", "time", "orders", "filesystem", "memory", "calc")
"""Those that the demo has, too."""
OTHERS = ("fetch", "excel", "github", "playwright")
MANY = (*EVERYDAY, *OTHERS)
"""All of them: 209 tools."""


def entries(place: Place, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How these servers are started on the data of a run: `command`, `args` and `env`.

    Raises:
        Unavailable: PyPI or npm can't be had.
    """
    everyday = [name for name in names if name in EVERYDAY]
    started = real_servers.entries_on_data(place.folder, everyday, place.repository)
    if len(everyday) < len(names):
        started |= _others(place)
    recorder = ["-I", "-S", str(RECORDER), str(_log(place))]
    return {
        name: {
            "command": sys.executable,
            "args": [*recorder, name, started[name]["command"], *started[name]["args"]],
            "env": started[name].get("env", {}),
        }
        for name in names
    }


def _others(place: Place) -> dict[str, dict[str, Any]]:
    python, node, npm = real_servers.locked("tasks"), str(node_folder() / "node"), commands_of("tasks")
    capabilities = "--caps=vision,pdf,devtools,network,storage,testing,config"
    output = f"--output-dir={place.folder / 'browser'}"
    return {
        "fetch": {"command": str(python.with_name("mcp-server-fetch")), "args": ["--allow-private-ips"]},
        "excel": {
            "command": str(python.with_name("excel-mcp-server")),
            "args": ["stdio", "--allow-dir", str(place.files)],
        },
        "github": {"command": node, "args": [str(npm / "mcp-server-github")]},
        "playwright": {"command": node, "args": [str(npm / "playwright-mcp"), "--headless", capabilities, output]},
    }


def recorded(place: Place) -> list[Call]:
    """The calls that have reached a server in this run, in the order of their answers."""
    log = _log(place)
    return [Call(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def _log(place: Place) -> Path:
    return place.folder / "calls.jsonl"
