"""Installs npm packages into .cache/npm, once, and the Node that runs them, as requirements/npm locks them.

`python -m scripts.npm SET` prints the folder with the commands of a set, a folder in requirements/npm, and the folder
with Node, as a PATH; where they can't be had, it ends with 1 and one line that says why.

The lock of a set has the version and the digest of each package, and npm refuses anything else. Few systems have the
Node that they need; npm carries its binary as a package. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements" / "npm"
CACHE = ROOT / ".cache" / "npm"
SECONDS = 240
NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retry-mintimeout=500")


class Unavailable(Exception):
    """Raised when something can't be installed here; the message is one line."""


def commands_of(name: str) -> Path:
    """The folder with the commands of the set `name`, a folder in requirements/npm.

    Raises:
        Unavailable: they can't be installed here.
    """
    wanted = {file: (LOCKS / name / file).read_text() for file in ("package.json", "package-lock.json")}

    def install_set(folder: Path) -> None:
        if shutil.which("npm") is None:
            raise Unavailable("npm is not on the PATH")
        for file, text in wanted.items():
            (folder / file).write_text(text)
        install(NPM, "npm ci", SECONDS, _reason, cwd=folder)

    digest = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()
    return installed(CACHE / name, digest, install_set) / "node_modules" / ".bin"


def installed(folder: Path, version: str, fill: Callable[[Path], None]) -> Path:
    """The folder, filled once for each version; several processes at once wait for the first.

    Raises:
        Unavailable: `fill` did.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = folder / ".installed"
        if not whole.exists() or whole.read_text() != version:
            print(f"installing {folder.name} (once)", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            whole.write_text(version)
    return folder


def node_folder() -> Path:
    """The folder with `node`, of the package for this system.

    Raises:
        Unavailable: npm has none for this system, or can't be had.
    """
    folder = commands_of("node")
    if not (folder / "node").exists():
        raise Unavailable(f"npm has no binary of Node 22 for {sys.platform} {platform.machine()}")
    return folder


def install(
    command: Sequence[str], title: str, seconds: int, reason: Callable[[str], str], cwd: Path | None = None
) -> None:
    """Run a package manager; `reason` finds in its stderr what went wrong, or gives an empty text.

    Raises:
        Unavailable: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
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


if __name__ == "__main__":
    try:
        print(commands_of(sys.argv[1]), node_folder(), sep=os.pathsep)
    except Unavailable as reason:
        sys.exit(f"npm: {reason}")
