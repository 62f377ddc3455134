"""Installs what tests need beside Python where it is missing: strace, browsers, HAProxy, PostgreSQL (root on Debian).

`.ci/run` does so: python -m scripts.debian_tools

Exits with 1 where they can't be installed. Where strace may not trace, it says so and exits with 0.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from scripts.vm import parts


def why_not_tracing() -> str:
    """Why strace can't trace a process here, in its own words; empty if it can."""
    command = shutil.which("strace", path=parts.SYSTEM_PATH)
    if command is None:
        return "strace is not installed"
    done = subprocess.run([command, "-qq", "-e", "trace=none", "true"], capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return last.removeprefix("strace: ") if done.returncode else ""


def main() -> None:
    try:
        parts.install(
            {
                "strace": "strace",
                "chromium": "chromium",
                "chromedriver": "chromium-driver",
                "haproxy": "haproxy",
                "pg_ctlcluster": "postgresql",
                "curl": "curl",
                "openssl": "openssl",
            }
        )
    except parts.Unavailable as error:
        sys.exit(f"\n!! strace, Chromium, HAProxy or PostgreSQL is missing and could not be installed:\n{error}\n")
    if reason := why_not_tracing():
        print(
            f"\n!! strace may not trace in this container ({reason}), so tests/behaviour/test_no_network.py is not run."
            "\n!! To run it, give the container the capability: docker run --cap-add=SYS_PTRACE …\n",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
