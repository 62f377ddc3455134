"""pandas, numpy, matplotlib and Pillow, for tests of what programs do with them: in .cache, installed once.

`python -m scripts.native_packages 3.11` installs them for that version of Python. Programs import them, in a process or
a microVM on x86-64. Standard library only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scripts.npm import Unavailable, install, installed

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "packages.txt"
SECONDS = 300


def folder(python: str) -> Path:
    """The folder that has them for a version of Python, such as `3.11`.

    Raises:
        Unavailable: PyPI can't be had.
    """

    def fill(folder: Path) -> None:
        # With bytecode: where a processor is emulated, compiling pandas would take minutes.
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary=:all:", "--compile"]
        target = ["--target", str(folder), "--python-version", python, "--implementation", "cp"]
        for system in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
            target += ["--platform", f"{system}_x86_64"]
        wanted = ["--require-hashes", "--requirement", str(LOCK)]
        install([*pip, *target, *wanted], "pip install", SECONDS, _reason)

    return installed(ROOT / ".cache" / f"packages-{python}", LOCK.read_text(), fill)


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""


if __name__ == "__main__":
    try:
        print(folder(sys.argv[1]))
    except Unavailable as reason:
        sys.exit(f"native_packages: {reason}")
