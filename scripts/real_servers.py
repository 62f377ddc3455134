"""Real MCP servers that run offline and without credentials, installed into .cache: `python -m scripts.real_servers`.

For the demo, the proof in tests/proof, and the benchmark of the stubs. They and all that they need are locked in
requirements/. Servers that need the same `mcp` share an environment. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.npm import Unavailable, commands_of, install, node_folder

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
SECONDS = 900
SERVERS = {
    "git": ("mcp-server-git", "mcp2"),
    "time": ("mcp-server-time", "mcp2"),
    "excel": ("excel-mcp-server", "mcp2"),
    "sqlite": ("mcp-server-sqlite", "mcp1"),
    "duckdb": ("mcp-server-duckdb", "mcp1"),
    "everything": ("mcp-server-everything", "npm"),
    "filesystem": ("mcp-server-filesystem", "npm"),
    "memory": ("mcp-server-memory", "npm"),
    "thinking": ("mcp-server-sequential-thinking", "npm"),
    "calc": ("calc-mcp", "npm"),
    "cyangit": ("git-mcp-server", "npm"),
}
"""The command of each, and the environment it is in; "npm" for those of npm."""


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
            found[name] = [str(python_of(place).with_name(script))]
    return found


def python_of(name: str) -> Path:
    """The interpreter of an environment, with all that its servers need.

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
    folder = CACHE / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists() or done.read_text() != version:
            print(f"installing {name} (once)", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            # With our own pip: one in the environment itself would take longer than the rest.
            venv.create(folder, with_pip=False, symlinks=os.name == "posix")
            pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
            install([*pip, "--quiet", "--no-input", *wanted], "pip install", SECONDS, _reason)
            done.write_text(version)
    return folder / "bin" / "python"


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        for name, command in commands().items():
            print(name, *command)
    except Unavailable as reason:
        sys.exit(f"real_servers: {reason}")
