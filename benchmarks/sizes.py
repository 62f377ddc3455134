"""Sizes of the wheel, and of an installation without extras, in the versions of requirements/product.txt."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.report import Row, rows_table

ROOT = Path(__file__).parents[1]
MAX_WHEEL_MB, MAX_INSTALLED_MB = 16, 200


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        wheel = _wheel(Path(folder) / "wheel")
        wheel_mb = wheel.stat().st_size / 1e6
        files = _installed(wheel, Path(folder) / "venv")
        compiled = sum(size for path, size in files if path.suffix == ".pyc") / 1e6
        whole = sum(size for _, size in files) / 1e6
    source = whole - compiled
    return [
        Row("the wheel", f"{wheel_mb:.2f} MB", f"at most {MAX_WHEEL_MB} MB", wheel_mb <= MAX_WHEEL_MB),
        Row(
            "an installation, without .pyc, as by uv",
            f"{source:.1f} MB",
            f"at most {MAX_INSTALLED_MB} MB",
            source <= MAX_INSTALLED_MB,
        ),
        Row("the same by pip, which compiles everything", f"{whole:.1f} MB"),
    ]


def _wheel(folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _installed(wheel: Path, folder: Path) -> list[tuple[Path, int]]:
    """The files of an environment with the wheel, and their sizes; Python itself and pip are not among them."""
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    for wanted in (["--require-hashes", "-r", str(ROOT / "requirements" / "product.txt")], ["--no-deps", str(wheel)]):
        subprocess.run([*pip, *wanted], check=True)
    return [(path, path.lstat().st_size) for path in (folder / "lib").rglob("*") if path.is_file()]


if __name__ == "__main__":
    print(rows_table(rows()))
