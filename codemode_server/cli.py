"""The commands and their exit codes: 0 done, 1 done with a bad answer, 2 the configuration or the call is wrong.

argparse, not a richer library: a host starts this command and waits for the handshake, and argparse costs 10 ms.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codemode_server import __version__
from codemode_server.errors import CodemodeError

if TYPE_CHECKING:
    from codemode_server.config import LoadedSettings


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
            case "doctor":
                return _doctor(parsed)
            case "setup":
                return _setup(parsed)
            case _:
                return _sync(parsed)
    except CodemodeError as error:
        print(f"codemode-server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _serve(parsed: argparse.Namespace) -> int:
    from codemode_server.serve import serve

    return serve(_file(parsed), getattr(parsed, "http", None))


def _config(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        from codemode_server.settings import json_schema

        print(json.dumps(json_schema(), indent=2))
        return 0
    from codemode_server.config import describe, load

    print(describe(load(_file(parsed))))
    return 0


def _status(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.status import report

    text, is_well = anyio.run(report, load(_file(parsed)), parsed.wait)
    print(text)
    return 0 if is_well else 1


def _doctor(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.doctor import examine
    from codemode_server.redaction import Redactor

    loaded = _with_warnings(load(_file(parsed)))
    settings = loaded.settings
    report = anyio.run(partial(examine, settings.sandbox, settings.search, boot=parsed.boot, announce=_announce))
    print(Redactor(loaded.secrets).text(report.text))
    return 0 if report.is_met else 1


def _setup(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.setup import prepare

    sandbox = _with_warnings(load(_file(parsed))).settings.sandbox
    steps = anyio.run(prepare, sandbox, parsed.archive, _announce)
    for step in steps:
        print(step.text)
    return 0 if all(step.is_well for step in steps) else 1


def _with_warnings(loaded: LoadedSettings) -> LoadedSettings:
    for warning in loaded.warnings:
        _announce(warning)
    return loaded


def _announce(line: str) -> None:
    """Progress, for the person who waits."""
    if line:
        print(f"codemode-server: {line}", file=sys.stderr)


def _sync(parsed: argparse.Namespace) -> int:
    import anyio

    text, is_well = anyio.run(_synced, parsed)
    print(text)
    return 0 if is_well else 1


async def _synced(parsed: argparse.Namespace) -> tuple[str, bool]:
    from codemode_server.app import inspected
    from codemode_server.catalog.sync import sync
    from codemode_server.config import load
    from codemode_server.status import is_well

    loaded = load(_file(parsed))
    if loaded.path is None:
        raise CodemodeError(f"there is no configuration, so nothing to write. {' '.join(loaded.warnings)}")
    async with inspected(loaded, parsed.wait) as app:
        catalog = app.catalog()
    try:
        lines = [sync(catalog, parsed.folder).text]
    except OSError as error:
        raise CodemodeError(f"{parsed.folder} can't be written: {error}; give another folder") from error
    if missing := [server.raw_name for server in catalog.servers if not is_well(server)]:
        names = ", ".join(missing)
        lines.append(f"not connected, so as of last time or missing: {names}; `codemode-server status` tells why")
    return "\n".join(lines), not missing


def _file(parsed: argparse.Namespace) -> Path | None:
    """`--config`, before or after the command; a default of the parser would undo the one before it."""
    return getattr(parsed, "config", None)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) <= 86_400:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")


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
    doctor = commands.add_parser(
        "doctor", parents=[config], help="tell where programs will run, and what mends the rest"
    )
    doctor.add_argument("--no-boot", dest="boot", action="store_false", help="try no microVM; go by the last time")
    setup = commands.add_parser("setup", parents=[config], help="fetch and compile ahead what the sandbox needs")
    setup.add_argument(
        "--archive", type=Path, metavar="TAR", help="take the image from this file (docker save), without a network"
    )
    for command in (state, sync):
        command.add_argument(
            "--wait", type=_seconds, default=30.0, metavar="SECONDS", help="for the upstreams; default 30"
        )
    return parser
