"""The command `codemode-server`; with no argument it serves over stdio, which is what a host's configuration starts."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    from codemode_server.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
