"""Presidio from its published packages, in an environment of its own and without a model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.npm import Unavailable, install

_CACHE = Path(__file__).parents[2] / ".cache" / "presidio"
_REQUIREMENTS = ("presidio-analyzer==2.2.366", "spacy==3.8.18")
_WORKER = Path(__file__).with_name("presidio_worker.py")
_INSTALL_SECONDS = 900
_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Answers:
    """What Presidio found in each text."""

    version: str
    found: list[list[tuple[str, str]]]
    seconds: float


def presidio(texts: Sequence[str]) -> Answers:
    """Search the texts.

    Raises:
        Unavailable: the package can't be had.
    """
    request = json.dumps(list(texts)).encode()
    done = subprocess.run([_python(), _WORKER], input=request, capture_output=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise Unavailable(f"Presidio failed: {done.stderr.decode()[-300:]}")
    answer = json.loads(done.stdout)
    found = [[(kind, value) for kind, value in one] for one in answer["answers"]]
    return Answers(answer["version"], found, answer["seconds"])


def _python() -> Path:
    """The interpreter of its environment, which is made once."""
    done = _CACHE / ".installed"
    python = _CACHE / "bin" / "python"
    wanted = "\n".join(_REQUIREMENTS)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {', '.join(_REQUIREMENTS)} (once)", file=sys.stderr)
        shutil.rmtree(_CACHE, ignore_errors=True)
        venv.create(_CACHE, with_pip=False, symlinks=os.name == "posix")
        pip = (sys.executable, "-m", "pip", "--python", str(python))
        install([*pip, "install", "--quiet", "--no-input", *_REQUIREMENTS], "pip install", _INSTALL_SECONDS, _reason)
        done.write_text(wanted)
    return python


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""
