"""pandas, numpy, matplotlib and Pillow, for tests of what programs do with them: in .cache, installed once.

`python -m scripts.native_packages` installs them. They are for x86-64 and the Python of this environment, and are
imported by programs only, in a process or a microVM with that version. Standard library only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scripts.npm import Unavailable, install, installed

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "packages.txt"
SECONDS = 300


def folder() -> Path:
    """The folder that has them.

    Raises:
        Unavailable: PyPI can't be had.
    """

    def fill(folder: Path) -> None:
        # With bytecode: where a processor is emulated, compiling pandas would take minutes.
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary=:all:", "--compile"]
        wanted = ["--target", str(folder), "--require-hashes", "--requirement", str(LOCK)]
        install([*pip, *wanted], "pip install", SECONDS, _reason)

    python = ".".join(map(str, sys.version_info[:2]))
    return installed(ROOT / ".cache" / "packages", f"{python}\n{LOCK.read_text()}", fill)


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        print(folder())
    except Unavailable as reason:
        sys.exit(f"native_packages: {reason}")
