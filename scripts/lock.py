"""Renews the lock files in requirements/: `make lock`, and `make lock ARGS=--upgrade` for newer versions.

    dev.txt            the project's dependencies and those of the group `dev` in pyproject.toml
    tools.txt          the group `tools`: what `make lock`, `make audit` and `make sbom` run
    servers-*.txt      the real MCP servers, from the file beside each that ends in .in
    npm/*/             npm packages, from the package.json in each folder

Each Python lock is for every Python from 3.11 on and every system at once, with the hashes of all files; no address of
an index is written down. uv asks PyPI, or what UV_DEFAULT_INDEX names; npm asks its registry.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
_UV = (
    "pip",
    "compile",
    "--quiet",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-strip-extras",  # without them pip takes `mcp[cli]` for a requirement that is not pinned
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--custom-compile-command=make lock",
)
_NPM = (
    "npm",
    "install",
    "--package-lock-only",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--omit-lockfile-registry-resolved",
)


def lock(upgrade: bool) -> None:
    """Write every lock anew; without `upgrade`, what is pinned and still allowed stays as it is."""
    options = ("--upgrade",) if upgrade else ()
    _python("dev.txt", ("--group=dev", "pyproject.toml"), options)
    _python("tools.txt", ("--group=pyproject.toml:tools",), options)
    for source in sorted(REQUIREMENTS.glob("*.in")):
        _python(f"{source.stem}.txt", (str(source.relative_to(ROOT)),), options)
    for manifest in sorted((REQUIREMENTS / "npm").glob("*/package.json")):
        if upgrade:
            (manifest.parent / "package-lock.json").unlink(missing_ok=True)
        # The binary of Node has a package for each system: all of them are locked, wherever this runs.
        subprocess.run((*_NPM, "--force"), cwd=manifest.parent, check=True)


def _python(name: str, sources: tuple[str, ...], options: tuple[str, ...]) -> None:
    uv = Path(sys.executable).with_name("uv")
    out = f"--output-file={Path('requirements') / name}"
    subprocess.run((str(uv), *_UV, *options, *sources, out), cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that are allowed")
    lock(parser.parse_args().upgrade)
