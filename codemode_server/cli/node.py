"""The `node` command: offers this machine's sandboxes to servers elsewhere. It reads no upstream.yaml, so that a node
has no secret but its token."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import anyio

from codemode_server.cli.arguments import count
from codemode_server.cli.terminal import announce
from codemode_server.domain.errors import SettingsError
from codemode_server.sandbox.registry import NodeOptions, serve_node

TOKEN_VARIABLE = "CODEMODE_NODE_TOKEN"  # noqa: S105 - its name
_MAX_TOKEN_FILE_BYTES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, required=True)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1, this machine only")
    parser.add_argument("--certificate", type=Path, metavar="PEM", help="for TLS, which all but this machine needs")
    parser.add_argument("--key", type=Path, metavar="PEM", help="default: in the file of the certificate")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=f"default: the variable {TOKEN_VARIABLE}")
    parser.add_argument(
        "--workspaces", type=Path, metavar="DIR", help="the folder `workspaces` of the servers' state folder, shared"
    )
    parser.add_argument("--backend", choices=("auto", "microsandbox", "wasm"), default="auto")
    parser.add_argument("--programs", type=count, default=4, help="how many run at once; default 4")
    parser.add_argument(
        "--warm", type=int, choices=range(17), default=1, help="sandboxes started in advance; default 1"
    )


def run(parsed: argparse.Namespace) -> int:
    try:
        options = NodeOptions(
            host=parsed.host,
            port=parsed.port,
            token=_token(parsed.token_file),
            certificate=parsed.certificate,
            key=parsed.key,
            workspaces=parsed.workspaces,
            backend=parsed.backend,
            programs=parsed.programs,
            warm=parsed.warm,
        )
        return anyio.run(_serve, options)
    except (OSError, ValueError) as error:
        raise SettingsError(str(error)) from error


async def _serve(options: NodeOptions) -> int:
    """The exit code, once a signal has come."""
    received: list[int] = []
    with anyio.CancelScope() as scope:

        def stop(number: int) -> None:
            received.append(number)
            scope.cancel()

        if sys.platform != "win32":  # its event loop has no signal handlers; Ctrl+C raises KeyboardInterrupt
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        await serve_node(options, announce)
    return 128 + received[0]


def _token(file: Path | None) -> str:
    if file is None:
        return os.environ.pop(TOKEN_VARIABLE, "")  # so that nothing inherits it
    with file.open("rb") as opened:
        return opened.read(_MAX_TOKEN_FILE_BYTES).decode().strip()


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text[:9]) <= 65_535:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"{text!r} is no port")
