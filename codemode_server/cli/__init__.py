"""The commands and their exit codes: 0 done, 1 done with a bad answer, 2 the configuration or the call is wrong.

argparse, not a richer library: a host starts this command and waits for the handshake, and argparse costs 10 ms.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from codemode_server import __version__
from codemode_server.domain.errors import CodemodeError

if TYPE_CHECKING:
    from codemode_server.config import LoadedSettings


_EXAMPLE = """\
example:
  codemode-server config check --config upstream.yaml    # what is in the file, and what is wrong with it
  codemode-server status --config upstream.yaml          # connects to every server in it
  claude mcp add codemode -- codemode-server --config /full/path/to/upstream.yaml
"""


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
            case "trust":
                return _trust(parsed)
            case "workspace":
                return _workspace(parsed)
            case "executions":
                return _executions(parsed)
            case _:
                return _sync(parsed)
    except CodemodeError as error:
        _announce(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def _serve(parsed: argparse.Namespace) -> int:
    from codemode_server.serve import serve

    return serve(_file(parsed), getattr(parsed, "http", None), new_token=getattr(parsed, "new_token", False))


def _config(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        from codemode_server.settings import json_schema

        print(json.dumps(json_schema(), indent=2))
        return 0
    from codemode_server.config import load
    from codemode_server.config.description import describe

    loaded = load(_file(parsed), require_trust=False)
    _show(describe(loaded))
    for error in loaded.server_errors:
        _announce(error)
    return 2 if loaded.server_errors else 0


def _status(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.status import report

    text, is_well = anyio.run(report, load(_file(parsed)), parsed.wait)
    _show(text)
    return 0 if is_well else 1


def _doctor(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.doctor import examine
    from codemode_server.redaction import Redactor

    loaded = _with_warnings(load(_file(parsed)))
    settings = loaded.settings
    report = anyio.run(partial(examine, settings.sandbox, settings.search, boot=parsed.boot, announce=_announce))
    _show(Redactor(loaded.secrets).text(report.text))
    return 0 if report.is_met else 1


def _setup(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.config import load
    from codemode_server.setup import prepare

    sandbox = _with_warnings(load(_file(parsed))).settings.sandbox
    steps = anyio.run(prepare, sandbox, parsed.archive, _announce)
    for step in steps:
        _show(step.text)
    return 0 if all(step.is_well for step in steps) else 1


def _trust(parsed: argparse.Namespace) -> int:
    from codemode_server import trusting

    if parsed.list:
        _show(trusting.listing())
        return 0
    if parsed.remove:
        _show(trusting.withdraw(parsed.folder))
        return 0
    loaded = trusting.examine(parsed.folder)
    _show(trusting.description(loaded))
    if trusting.is_trusted(loaded):
        print("this file is already trusted")
        return 0
    if not parsed.yes and not _is_agreed("Trust this file, so that servers are started as it says? [y/N] "):
        print("not trusted; nothing has changed")
        return 1
    _show(trusting.trust(loaded))
    return 0


def _workspace(parsed: argparse.Namespace) -> int:
    from codemode_server import workspace_files
    from codemode_server.config import load

    loaded = load(_file(parsed))
    folder = workspace_files.folder(loaded)
    is_cleaning = parsed.action == "clean"
    days = parsed.older_than if is_cleaning else 0.0
    found = workspace_files.examine(folder, days) if folder is not None else workspace_files.Found()
    if folder is None or not found.files + found.folders:
        print("there is nothing to remove" if is_cleaning else "the workspace is empty")
        return 0
    _show(workspace_files.description(loaded, folder, found))
    if not is_cleaning:
        return 0
    if not parsed.yes and not _is_agreed(f"Remove {found.text}, for good? [y/N] "):
        print("nothing was removed")
        return 1
    line, is_done = workspace_files.clean(folder, days)
    _show(line)
    return 0 if is_done else 1


def _executions(parsed: argparse.Namespace) -> int:
    import anyio

    from codemode_server.cli import executions
    from codemode_server.config import load

    loaded, as_json = load(_file(parsed)), getattr(parsed, "json", False)
    if parsed.action == "show":
        page = anyio.run(partial(executions.show_execution, loaded, parsed.id, as_json=as_json))
    else:
        page = anyio.run(partial(executions.list_executions, loaded, getattr(parsed, "limit", 20), as_json=as_json))
    _show(page)
    return 0


def _is_agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise CodemodeError(
            "stdin is not a terminal, so you can't be asked; review what is shown above and rerun with --yes"
        )
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _with_warnings(loaded: LoadedSettings) -> LoadedSettings:
    from codemode_server import logs
    from codemode_server.config.live import LiveConfig
    from codemode_server.redaction import Redactor

    logs.start(None, LiveConfig(redactor=Redactor(loaded.secrets)))
    for line in loaded.all_messages:
        _announce(line)
    return loaded


def _announce(line: str) -> None:
    """Progress, for the person who waits."""
    from codemode_server.text import escaped_lines

    print(f"codemode-server: {escaped_lines(line)}", file=sys.stderr)


def _show(page: str) -> None:
    """The answer of a command."""
    from codemode_server.text import escaped_lines

    print(escaped_lines(page))


def _sync(parsed: argparse.Namespace) -> int:
    import anyio

    text, is_well = anyio.run(_synced, parsed)
    _show(text)
    return 0 if is_well else 1


async def _synced(parsed: argparse.Namespace) -> tuple[str, bool]:
    from codemode_server.app import inspected
    from codemode_server.catalog.sync import sync
    from codemode_server.config import load
    from codemode_server.status import is_well

    loaded = load(_file(parsed))
    if loaded.path is None:
        raise CodemodeError(f"there is no configuration, so nothing to write. {' '.join(loaded.all_messages)}")
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


def _days(text: str) -> float:
    with suppress(ValueError):
        if 0 < (days := float(text)) <= 100_000:
            return days
    raise argparse.ArgumentTypeError(f"{text!r} is no number of days")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) <= 86_400:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")


class _Parser(argparse.ArgumentParser):
    """Answers a mistyped command with the one that was probably meant."""

    def error(self, message: str) -> NoReturn:
        choice = r"argument (?:COMMAND|ACTION): invalid choice: '(.*)' \(choose from (.*)\)"
        if wrong := re.fullmatch(choice, message, re.DOTALL):
            from difflib import get_close_matches

            known = [name.strip("' ") for name in wrong[2].split(",")]
            meant = get_close_matches(wrong[1], known, n=1, cutoff=0.5)
            hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(known)}"
            message = f"there is no command {wrong[1]!r}; {hint}"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    config = _Parser(add_help=False)
    config.add_argument(
        "--config",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="default: $CODEMODE_CONFIG, ./upstream.yaml, then the user's config folder",
    )
    parser = _Parser(
        prog="codemode-server",
        parents=[config],
        description="One MCP server in place of all the others. Without a command: serve over stdio.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"codemode-server {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser("serve", parents=[config], help="serve over stdio, or over HTTP on this machine")
    serve.add_argument("--http", metavar="HOST:PORT", help="streamable HTTP at http://HOST:PORT/mcp; loopback only")
    serve.add_argument(
        "--new-token", action="store_true", help="make a new token for --http; the old one ends with this start"
    )
    check = commands.add_parser("config", parents=[config], help="check upstream.yaml, or print its JSON Schema")
    actions = check.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("check", parents=[config], help="print what was understood; the default")
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
    trust = commands.add_parser("trust", help="allow the upstream.yaml of a folder to start servers")
    trust.add_argument("folder", type=Path, nargs="?", default=Path(), help="default: the current folder")
    trust.add_argument("--yes", action="store_true", help="trust what is shown without being asked")
    trust.add_argument("--list", action="store_true", help="list the trusted files")
    trust.add_argument("--remove", action="store_true", help="stop trusting this folder's file")
    workspace = commands.add_parser("workspace", parents=[config], help="show the programs' files, or remove them")
    uses = workspace.add_subparsers(dest="action", metavar="ACTION")
    uses.add_parser("show", parents=[config], help="print how much there is, and the largest files; the default")
    clean = uses.add_parser("clean", parents=[config], help="remove them; also while a product runs")
    clean.add_argument(
        "--older-than", type=_days, default=0.0, metavar="DAYS", help="only what was not changed for so long"
    )
    clean.add_argument("--yes", action="store_true", help="remove what is shown without being asked")
    executions = commands.add_parser("executions", parents=[config], help="list programs that ran, or show one")
    reads = executions.add_subparsers(dest="action", metavar="ACTION")
    listing = reads.add_parser("list", parents=[config], help="print the newest ones; the default")
    listing.add_argument("--limit", type=int, default=20, metavar="COUNT", help="default 20")
    showing = reads.add_parser("show", parents=[config], help="print one with its calls")
    showing.add_argument("id", metavar="ID", help="as the answer to the program has it")
    for command in (listing, showing):
        command.add_argument("--json", action="store_true", help="print JSON")
    for command in (state, sync):
        command.add_argument(
            "--wait", type=_seconds, default=30.0, metavar="SECONDS", help="for the upstreams; default 30"
        )
    return parser
