"""The `serve` command, which also runs when no command is given."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from codemode_server.cli.arguments import config_file
from codemode_server.startup.serve import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--http", metavar="HOST:PORT", help="streamable HTTP at http://HOST:PORT/mcp")
    parser.add_argument(
        "--standalone",
        action="store_true",
        help="serve over stdio by this process, in place of the server that your hosts share",
    )
    parser.add_argument("--listener", type=int, help=argparse.SUPPRESS)  # the socket of the person's running server
    parser.add_argument(
        "--new-token", action="store_true", help="make a new token for --http; the old one ends with this start"
    )
    parser.add_argument(
        "--no-mcp-tracing",
        action="store_true",
        help="trace programs without their calls, and send no trace context to the servers (tracing.mcp: false)",
    )


def run(parsed: argparse.Namespace) -> NoReturn:
    if parsed.command is None and sys.stdin.isatty():
        print("serving MCP over stdio for a host; to look around: codemode-server status", file=sys.stderr)
    serve(
        config_file(parsed),
        getattr(parsed, "http", None),
        listener=getattr(parsed, "listener", None),
        new_token=getattr(parsed, "new_token", False),
        has_mcp_tracing=not getattr(parsed, "no_mcp_tracing", False),
    )
