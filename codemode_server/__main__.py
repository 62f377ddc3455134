"""The command `codemode-server`; with no argument it serves over stdio, which is what a host's configuration starts."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    try:
        arguments = sys.argv[1:]
        if arguments[:1] in ([], ["serve"], ["--config"]):
            from codemode_server.shim.main import serve

            if (code := serve(arguments)) is not None:
                sys.exit(code)
        from codemode_server.cli import run

        sys.exit(run(arguments))
    except KeyboardInterrupt:  # also in an import, which takes most of the time of a short command
        sys.exit(130)


if __name__ == "__main__":
    main()
