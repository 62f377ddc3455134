"""Real MCP servers that run offline and without credentials, installed into .cache: `python -m scripts.real_servers`.

For the demo, the proof in tests/proof, and the benchmark of the stubs. Their versions are fixed; those of what they
need are not. Servers that need the same `mcp` share an environment. Standard library only.
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
ENVIRONMENTS = {
    "mcp2": ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "excel-mcp-server==2.2.2"),
    "mcp1": ("mcp<2", "mcp-server-sqlite==2025.4.25", "mcp-server-duckdb==1.1.0"),
}
NPM_SERVERS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
    "@coo-quack/calc-mcp": "2.1.1",
    "@cyanheads/git-mcp-server": "2.15.3",
}


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
    wanted = "\n".join(ENVIRONMENTS[environment])
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists() or done.read_text() != wanted:
            _install(folder, ENVIRONMENTS[environment])
            done.write_text(wanted)
    return folder / "bin" / "python"


def _command(server: RealServer) -> list[str]:
    if server.environment == "npm":
        return [str(node_folder() / "node"), str(commands_of("servers", NPM_SERVERS) / server.script)]
    return [str(python_of(server.environment).with_name(server.script))]


def _install(folder: Path, requirements: Iterable[str]) -> None:
    """With our own pip: one in the environment itself would take longer than the rest."""
    print(f"installing {', '.join(requirements)} (once)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=os.name == "posix")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check")
    install([*pip, "install", "--quiet", "--no-input", *requirements], "pip install", SECONDS, _reason)


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        for name, command in commands().items():
            print(name, *command)
    except Unavailable as reason:
        sys.exit(f"real_servers: {reason}")
