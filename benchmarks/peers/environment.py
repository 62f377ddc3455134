"""The published packages of the peers, installed once into an environment of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from scripts.npm import install

CACHE = Path(__file__).parents[2] / ".cache" / "peers"
REQUIREMENTS = ("toolplane==0.5.2", "fastmcp==4.1.2", "pydantic-monty==1.4.0")
_INSTALL_SECONDS = 900
_VERSIONS = (
    "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('fastmcp', 'toolplane')}))"
)


def folder() -> tuple[Path, dict[str, str]]:
    """The folder with their commands, and their versions by name.

    Raises:
        Unavailable: PyPI can't be had.
    """
    done = CACHE / ".installed"
    wanted = "\n".join(REQUIREMENTS)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {', '.join(REQUIREMENTS)} (once)", file=sys.stderr)
        shutil.rmtree(CACHE, ignore_errors=True)
        venv.create(CACHE, with_pip=False, symlinks=os.name == "posix")
        pip = (sys.executable, "-m", "pip", "--python", str(CACHE / "bin" / "python"))
        install([*pip, "install", "--quiet", "--no-input", *REQUIREMENTS], "pip install", _INSTALL_SECONDS, _reason)
        done.write_text(wanted)
    asked = subprocess.run([CACHE / "bin" / "python", "-c", _VERSIONS], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(asked.stdout)
    return CACHE / "bin", versions


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""
