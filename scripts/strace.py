"""Makes sure for `.ci/run` that strace is installed, and says so where it may not trace: python -m scripts.strace

`tests/behaviour/test_no_network.py` watches the product's system calls with it. Standard library only.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from scripts.vm import parts

_MAY_NOT_TRACE = """
!! STRACE MAY NOT TRACE IN THIS CONTAINER ({reason}).
!! The tests that no internet socket is opened (tests/behaviour/test_no_network.py) are NOT RUN.
!! To run them, give the container the capability: docker run --cap-add=SYS_PTRACE …

"""


def why_not_tracing() -> str:
    """Why strace can't trace a process here, in its own words; empty if it can."""
    command = shutil.which("strace", path=parts.SYSTEM_PATH)
    if command is None:
        return "strace is not installed"
    done = subprocess.run([command, "-qq", "-e", "trace=none", "true"], capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return last.removeprefix("strace: ") if done.returncode else ""


def main() -> int:
    try:
        parts.install({"strace": "strace"})
    except parts.Unavailable as error:
        sys.stderr.write(f"\n!! strace is missing and could not be installed:\n{error}\n\n")
        return 1
    if reason := why_not_tracing():
        sys.stderr.write(_MAY_NOT_TRACE.format(reason=reason))
    return 0


if __name__ == "__main__":
    sys.exit(main())
