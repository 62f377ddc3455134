"""The `node` command: runs programs for replicas on other machines. It reads no upstream.yaml, so that a node has no
secret but its token."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import anyio

from codemode_server.cli.arguments import count
from codemode_server.cli.terminal import announce
from codemode_server.domain.errors import SettingsError
from codemode_server.sandbox.registry import NodeControl, NodeOptions, serve_node


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1, this machine only")
    parser.add_argument("--certificate", type=Path, metavar="PEM", help="with its key; all but this machine needs it")
    parser.add_argument("--workspaces", type=Path, metavar="DIR", help="`workspaces` of the replicas' state folder")
    parser.add_argument("--backend", choices=("auto", "microsandbox", "wasm"), default="auto")
    parser.add_argument("--programs", type=count, default=4, metavar="N", help="how many run at once; default 4")


def run(parsed: argparse.Namespace) -> int:
    options = NodeOptions(
        host=parsed.host,
        port=parsed.port,
        token=os.environ.pop("CODEMODE_NODE_TOKEN", ""),  # so that no process inherits it
        certificate=parsed.certificate,
        workspaces=parsed.workspaces,
        backend=parsed.backend,
        programs=parsed.programs,
    )
    control = NodeControl()

    def stop(*_: object) -> None:
        if control.is_stopping:  # a second time: ends its programs, as Ctrl+C does
            signal.raise_signal(signal.SIGINT)
        control.is_stopping = True

    if sys.platform != "win32":
        signal.signal(signal.SIGTERM, stop)
    try:
        anyio.run(serve_node, options, announce, control)
    except (OSError, OverflowError) as error:  # the latter: no such port
        raise SettingsError(f"the node can't be started: {error}") from error
    except KeyboardInterrupt:
        return 130
    return 0
