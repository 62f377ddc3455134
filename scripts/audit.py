"""Asks for known vulnerabilities of every package in the locks: `make audit`.

pip-audit asks PyPI's JSON API, `npm audit` npm's registry. A package that the database does not know, and a database
that does not answer, are failures: no answer is not a clean one. Ends with 0 only if every lock was checked and nothing
was found.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
SECONDS = 300
_PIP_AUDIT = (
    *(sys.executable, "-m", "pip_audit", "--strict", "--progress-spinner=off", "--disable-pip", "--require-hashes"),
    "--requirement",
)
_NPM_AUDIT = ("npm", "audit", "--audit-level=low", "--loglevel=error")


def main() -> None:
    """Check each lock, and say at the end which ones were not clean or could not be checked."""
    failed = []
    for lock in sorted(REQUIREMENTS.glob("*.txt")):
        if not _is_clean((*_PIP_AUDIT, str(lock)), lock.parent, lock.name):
            failed.append(lock.name)
    for lock in sorted((REQUIREMENTS / "npm").glob("*/package-lock.json")):
        name = f"npm/{lock.parent.name}"
        if not _is_clean(_NPM_AUDIT, lock.parent, name):
            failed.append(name)
    if failed:
        sys.exit(f"audit: NOT CLEAN, or not checked since the database did not answer: {', '.join(failed)}")
    print("audit: every lock was checked, no known vulnerability")


def _is_clean(command: tuple[str, ...], folder: Path, name: str) -> bool:
    print(f"== {name}", flush=True)
    try:
        return subprocess.run(command, cwd=folder, check=False, timeout=SECONDS).returncode == 0
    except FileNotFoundError:
        print(f"{command[0]} is not on the PATH", file=sys.stderr)
    except subprocess.TimeoutExpired:
        print(f"no answer within {SECONDS} s", file=sys.stderr)
    return False


if __name__ == "__main__":
    main()
