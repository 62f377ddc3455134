"""The commands and their exit codes: 0 done, 1 done with a bad answer, 2 the configuration or the call is wrong.

argparse, not a richer library: a host starts this command and waits for the handshake, and argparse costs 10 ms.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from codemode_server import __version__
from codemode_server.errors import CodemodeError


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        match parsed.command:
            case None | "serve":
                return _serve(parsed)
            case "config":
                return _config(parsed)
            case "status":
                return _status(parsed)
            case _:
                return _sync(parsed)
    except CodemodeError as error:
        print(f"codemode-server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _serve(parsed: argparse.Namespace) -> int:
    from codemode_server.app import serve
    from codemode_server.config import load

    return serve(load(parsed.config), http=getattr(parsed, "http", None))


def _config(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        from codemode_server.settings import json_schema

        print(json.dumps(json_schema(), indent=2))
        return 0
    from codemode_server.config import describe, load

    print(describe(load(parsed.config)))
    return 0


def _status(parsed: argparse.Namespace) -> int:
    from codemode_server.app import status
    from codemode_server.config import load

    text, is_well = status(load(parsed.config), wait_seconds=parsed.wait)
    print(text)
    return 0 if is_well else 1


def _sync(parsed: argparse.Namespace) -> int:
    from codemode_server.app import sync
    from codemode_server.config import load

    print(sync(load(parsed.config), parsed.folder, wait_seconds=parsed.wait))
    return 0


def _parser() -> argparse.ArgumentParser:
    config = argparse.ArgumentParser(add_help=False)
    config.add_argument(
        "--config",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="default: $CODEMODE_CONFIG, ./upstream.yaml, then the user's config folder",
    )
    parser = argparse.ArgumentParser(
        prog="codemode-server",
        parents=[config],
        description="One MCP server in place of all the others. Without a command: serve over stdio.",
    )
    parser.set_defaults(config=None)
    parser.add_argument("--version", action="version", version=f"codemode-server {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser("serve", parents=[config], help="serve over stdio, or over HTTP on this machine")
    serve.add_argument("--http", metavar="HOST:PORT", help="streamable HTTP at http://HOST:PORT/mcp; loopback only")
    check = commands.add_parser("config", help="check upstream.yaml, or print its JSON Schema")
    actions = check.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("check", parents=[config], help="print what was understood")
    actions.add_parser("schema", help="print the JSON Schema for editors")
    state = commands.add_parser("status", parents=[config], help="connect to every upstream and tell how each is")
    sync = commands.add_parser("sync", parents=[config], help="write the tree of stubs for people and editors")
    sync.add_argument("folder", type=Path, nargs="?", default=Path("servers"), help="default: ./servers")
    for command in (state, sync):
        command.add_argument(
            "--wait", type=float, default=30.0, metavar="SECONDS", help="for the upstreams; default 30"
        )
    return parser
