"""Real MCP servers that run offline and without credentials, with some data: installed into .cache, once.

For the demo, the examples, and the proof in tests/proof. They and all that they need are locked in requirements/.
Servers that need the same `mcp` share an environment. Standard library only. `python -m scripts.real_servers NAME …`
installs these.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import sys
import venv
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from scripts.npm import Unavailable, commands_of, install, installed, node_folder

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
SECONDS = 900
SERVERS = {
    "git": ("mcp-server-git", "mcp2"),
    "time": ("mcp-server-time", "mcp2"),
    "orders": ("mcp-server-sqlite", "mcp1"),
    "everything": ("mcp-server-everything", "npm"),
    "filesystem": ("mcp-server-filesystem", "npm"),
    "memory": ("mcp-server-memory", "npm"),
    "calc": ("calc-mcp", "npm"),
}
"""The command of each, and the environment it is in; "npm" for those of npm."""


def entries(folder: Path, names: Iterable[str], repository: Path = ROOT) -> dict[str, dict[str, Any]]:
    """The entries of these servers in an upstream.yaml, with their data in `folder`; all are installed by now.

    Raises:
        Unavailable: PyPI or npm can't be had, or not what they need.
    """
    (folder / "files").mkdir(parents=True, exist_ok=True)
    if not (folder / "orders.db").exists():
        _write_orders(folder / "orders.db")
    return entries_on_data(folder, names, repository)


def entries_on_data(folder: Path, names: Iterable[str], repository: Path) -> dict[str, dict[str, Any]]:
    """The same on what `folder` has; nothing is written into it.

    Raises:
        Unavailable: PyPI or npm can't be had, or not what they need.
    """
    arguments = {
        "git": ["--repository", str(repository)],
        "time": ["--local-timezone", "UTC"],
        "orders": ["--db-path", str(folder / "orders.db")],
        "filesystem": [str(folder / "files")],
        "everything": ["stdio"],
    }
    started: dict[str, dict[str, Any]] = {
        name: {"command": command[0], "args": [*command[1:], *arguments.get(name, [])]}
        for name, command in commands(names).items()
    }
    if "memory" in started:
        started["memory"]["env"] = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return started


def _write_orders(path: Path) -> None:
    """10,000 orders of 900 customers, the same each time."""
    numbers = random.Random(7)
    statuses = ("pending", "shipped", "paid", "cancelled")
    rows = [
        (
            number,
            f"customer{numbers.randrange(900):03}@example.com",
            numbers.choice(statuses),
            round(numbers.uniform(5, 1000), 2),
            f"2026-{numbers.randrange(1, 13):02}-{numbers.randrange(1, 29):02}",
        )
        for number in range(1, 10_001)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer TEXT, status TEXT, amount REAL, day TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)


def commands(names: Iterable[str] = SERVERS) -> dict[str, list[str]]:
    """How each of these servers is started, all of them installed by now; its own arguments come after it.

    Raises:
        Unavailable: PyPI or npm can't be had, or not what they need.
    """
    found = {}
    for name in names:
        script, place = SERVERS[name]
        if place == "npm":
            found[name] = [str(node_folder() / "node"), str(commands_of("servers") / script)]
        else:
            found[name] = [str(locked(place).with_name(script))]
    return found


def locked(name: str) -> Path:
    """The interpreter of an environment that has what requirements/servers-NAME.txt locks.

    Raises:
        Unavailable: PyPI can't be had.
    """
    lock = ROOT / "requirements" / f"servers-{name}.txt"
    return environment(f"servers/{name}", ("--require-hashes", "--requirement", str(lock)), lock.read_text())


def environment(name: str, wanted: Sequence[str], version: str) -> Path:
    """The interpreter of an environment in .cache that has what these arguments of pip install, installed once for each
    version.

    Raises:
        Unavailable: PyPI can't be had.
    """

    def fill(folder: Path) -> None:
        # With our own pip: one in the environment itself would take longer than the rest.
        venv.create(folder, with_pip=False, symlinks=os.name == "posix")
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
        install([*pip, "--quiet", "--no-input", "--no-compile", *wanted], "pip install", SECONDS, _reason)

    return installed(CACHE / name, version, fill) / "bin" / "python"


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        commands(sys.argv[1:])
    except Unavailable as reason:
        sys.exit(f"servers: {reason}")
