"""Builds the component: the guest's sources and CPython, compiled to WebAssembly by componentize-py.

    python -m codemode_server.sandbox.backends.wasm.build [--if-stale]

Imports only the standard library, since the build hook loads this file by its path in an environment that has only the
build's requirements. A stamp beside the component records what it was built from, so that a stale one is never run.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GUEST = HERE.parent.parent / "guest"
WORLD = HERE / "world.wit"
COMPONENT = HERE / "guest.wasm"
PACKED = HERE / "guest.wasm.xz"
"""The component in an installed wheel."""
PACKAGE = "codemode_guest"


class BuildFailed(Exception):
    """Raised when the component cannot be built; the message says what is missing."""


def stamp_path(component: Path) -> Path:
    return component.with_name(component.name.removesuffix(".xz") + ".json")


def installed_component() -> Path:
    """The component of this installation, compressed or not; it may be missing."""
    return PACKED if PACKED.is_file() and not COMPONENT.is_file() else COMPONENT


def sources_digest() -> str:
    """SHA-256 of what the component is built from: the guest's sources and the WIT world."""
    digest = hashlib.sha256()
    for path in [*sorted(GUEST.glob("*.py")), WORLD]:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp(component: Path) -> dict[str, str]:
    """The stamp of a component; empty if it is missing or unreadable."""
    try:
        stamp = json.loads(stamp_path(component).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def is_current(component: Path = COMPONENT) -> bool:
    return component.is_file() and read_stamp(component).get("sources") == sources_digest()


def build_component(out: Path = COMPONENT) -> None:
    """Build the component and its stamp; each replaces the old file in one step. Raises `BuildFailed` if a tool is
    missing or failed."""
    sources = sources_digest()
    with tempfile.TemporaryDirectory(prefix="codemode-build-") as folder:
        work = Path(folder)
        shutil.copytree(GUEST, work / "src" / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(_folder_of("tzdata"), work / "src" / "tzdata", ignore=shutil.ignore_patterns("__pycache__"))
        made = work / "guest.wasm"
        command = [sys.executable, "-c", "import sys; from componentize_py import script; sys.exit(script())"]
        options = ["-d", str(WORLD), "-w", "program", "componentize", f"{PACKAGE}.app", "-p", str(work / "src")]
        _folder_of("componentize_py")
        run = subprocess.run(  # noqa: S603 - our own arguments
            [*command, *options, "-o", str(made)], check=False, capture_output=True, text=True, cwd=work
        )
        if run.returncode != 0 or not made.is_file():
            raise BuildFailed(f"componentize-py failed:\n{(run.stdout + run.stderr).strip()[-4000:]}")
        stamp = {
            "sources": sources,
            "component": hashlib.sha256(made.read_bytes()).hexdigest(),
            "componentize_py": importlib.metadata.version("componentize-py"),
            "tzdata": importlib.metadata.version("tzdata"),
        }
        _put(made.read_bytes(), out)
        _put((json.dumps(stamp, indent=2) + "\n").encode(), stamp_path(out))


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise BuildFailed(
            f"the package {package.replace('_', '-')!r} is needed to build the sandbox and is not installed"
        )
    return Path(spec.origin).parent


def _put(data: bytes, path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--if-stale"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments and is_current():
        return 0
    try:
        build_component()
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    print(f"built {COMPONENT.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
