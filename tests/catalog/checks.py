"""What several tests ask of stubs: that they pass the strict type checker, and that they do nothing but declare."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


def strict_errors(folder: Path, *names: str) -> list[str]:
    """The lines in which `mypy --strict` finds an error in these files and packages of a folder."""
    # empty-body: a stub has no body by design, `tool` gives it one; every other rule of --strict holds.
    command = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code=empty-body", "--no-color-output"]
    checked = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), "--config-file=", *names],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
    )
    return [line for line in checked.stdout.splitlines() if ": error:" in line]


def only_declares(source: str) -> bool:
    """Whether a stub's module has nothing but imports, types and functions at its top."""
    allowed = {ast.Expr, ast.ImportFrom, ast.ClassDef, ast.Assign, ast.FunctionDef}
    return {type(statement) for statement in ast.parse(source).body} <= allowed
