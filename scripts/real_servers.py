"""Real MCP servers that run offline and without credentials, installed into .cache: `python -m scripts.real_servers`.

For the demo, the proof in tests/proof, and the benchmark of the stubs. They and all that they need
are locked in requirements/. Servers that need the same `mcp` share an environment. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.npm import Unavailable, commands_of, install, node_folder

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "servers"
SECONDS = 300
LOCKS = Path(__file__).resolve().parents[1] / "requirements"


@dataclass(frozen=True)
class RealServer:
    """One of them: its command, and the environment it is in; "npm" for those of npm."""

    script: str
    environment: str


SERVERS = {
    "git": RealServer("mcp-server-git", "mcp2"),
    "time": RealServer("mcp-server-time", "mcp2"),
    "excel": RealServer("excel-mcp-server", "mcp2"),
    "sqlite": RealServer("mcp-server-sqlite", "mcp1"),
    "duckdb": RealServer("mcp-server-duckdb", "mcp1"),
    "everything": RealServer("mcp-server-everything", "npm"),
    "filesystem": RealServer("mcp-server-filesystem", "npm"),
    "memory": RealServer("mcp-server-memory", "npm"),
    "thinking": RealServer("mcp-server-sequential-thinking", "npm"),
    "calc": RealServer("calc-mcp", "npm"),
    "cyangit": RealServer("git-mcp-server", "npm"),
}


def commands(names: Iterable[str] = SERVERS) -> dict[str, list[str]]:
    """How each of these servers is started, all of them installed by now; its own arguments come after it.

    Raises:
        Unavailable: PyPI or npm can't be had, or not what they need.
    """
    return {name: _command(SERVERS[name]) for name in names}


def python_of(environment: str) -> Path:
    """The interpreter of an environment, with all that its servers need.

    Raises:
        Unavailable: PyPI can't be had.
    """
    folder = CACHE / environment
    lock_file = LOCKS / f"servers-{environment}.txt"
    wanted = lock_file.read_text()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists() or done.read_text() != wanted:
            _install(folder, lock_file)
            done.write_text(wanted)
    return folder / "bin" / "python"


def _command(server: RealServer) -> list[str]:
    if server.environment == "npm":
        return [str(node_folder() / "node"), str(commands_of("servers") / server.script)]
    return [str(python_of(server.environment).with_name(server.script))]


def _install(folder: Path, lock_file: Path) -> None:
    """With our own pip: one in the environment itself would take longer than the rest."""
    print(f"installing what {lock_file.name} names (once)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=os.name == "posix")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check")
    options = ("--quiet", "--no-input", "--require-hashes", "--requirement", str(lock_file))
    install([*pip, "install", *options], "pip install", SECONDS, _reason)


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        for name, command in commands().items():
            print(name, *command)
    except Unavailable as reason:
        sys.exit(f"real_servers: {reason}")
