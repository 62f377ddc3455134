"""The commands `connect` and `disconnect`, which show the change of a host's file before they make it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import announce, is_confirmed, show
from codemode_server.config import LoadedSettings, connecting, load
from codemode_server.config.connecting import launch
from codemode_server.config.file_edits import NotEditable
from codemode_server.config.hosts import HOSTS, HostPlace, KnownHost, System
from codemode_server.config.loading import locate
from codemode_server.domain.errors import CodemodeError
from codemode_server.support.text import escaped

_RELOAD = {
    "vscode": "VS Code asks whether to start it: look at the MCP servers in its Extensions view",
    "cursor": "switch it on under Settings, Tools & MCP",
    "claude-desktop": "quit Claude Desktop and start it again",
    "gemini": "start it anew if it runs; with folder trust on, it starts servers only in folders that you trust there, "
    "and reads a project's own .gemini/settings.json only in these",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument(
        "--keep-servers", action="store_true", help="leave the servers that your configuration has too in the file"
    )
    parser.add_argument("--print", action="store_true", help="print the entry for the host's file, and end")


def _add_place(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(sorted(HOSTS))
    parser.add_argument("hosts", nargs="+", metavar="HOST", choices=sorted(HOSTS), help=f"one or more of {names}")
    parser.add_argument("--project", action="store_true", help="the host's file in the current folder")
    parser.add_argument("--yes", action="store_true", help="change the file without being asked")
    parser.add_argument("--dry-run", action="store_true", help="show the change and end")


def run(parsed: argparse.Namespace) -> int:
    config = config_file(parsed)
    started = launch(config)
    if parsed.print:
        for name in parsed.hosts:
            show(connecting.snippet(HOSTS[name], started).rstrip())
        return 0
    ours, problem = _configuration(config)
    code = _for_each_host(parsed, lambda host: _connect(parsed, host, started, ours, problem))
    if not locate(config).path.is_file():
        show("there is no configuration yet; make one with: codemode-server init")
    return code


def _for_each_host(parsed: argparse.Namespace, change: Callable[[KnownHost], int]) -> int:
    """Change the files of these hosts; one that can't be changed is named, and does not keep the others from it."""
    codes: list[int] = []
    for name in parsed.hosts:
        try:
            codes.append(change(HOSTS[name]))
        except CodemodeError as error:
            if len(parsed.hosts) == 1:
                raise
            announce(str(error))
            codes.append(2)
    return max(codes)


def _connect(
    parsed: argparse.Namespace,
    host: KnownHost,
    started: connecting.ProductCommand,
    ours: LoadedSettings | None,
    problem: str,
) -> int:
    place, within = _located(parsed, host)
    with _refusals_named(place):
        plan = _planned(parsed, place, within, started, ours)
        if plan.is_empty:
            show(_page(plan, problem))
            print(f"{host.name} starts codemode-server already; nothing has changed")
            return 0
        if not _is_agreed(parsed, plan, problem):
            return 0 if parsed.dry_run else 1
        backup = connecting.apply(plan)
    if backup is not None:
        show(f"the file as it was: {escaped(str(backup))}")
    again = _RELOAD.get(host.id, f"start {host.name} anew if it runs, since it may write this file too")
    show(f"{host.name} is connected; {again}")
    show(f"to undo it: codemode-server disconnect {host.id}{' --project' if parsed.project else ''}")
    return 0


def _configuration(config: Path | None) -> tuple[LoadedSettings | None, str]:
    """The configuration; or None, and why it can't be used."""
    try:
        return load(config), ""
    except CodemodeError as error:
        return None, str(error)


def _planned(
    parsed: argparse.Namespace,
    place: HostPlace,
    within: Path,
    started: connecting.ProductCommand,
    ours: LoadedSettings | None,
) -> connecting.HostFileChange:
    """The change; asks the person whether the servers that both have leave the host's file."""

    def planned(*, takes_out: bool) -> connecting.HostFileChange:
        is_given = config_file(parsed) is not None
        return connecting.plan_connect(
            place, within, started, is_command_given=is_given, ours=ours, takes_out=takes_out
        )

    plan = planned(takes_out=not parsed.keep_servers)
    if not plan.removed or parsed.yes or parsed.dry_run or not sys.stdin.isatty():
        return plan
    names = ", ".join(it.name for it in plan.removed)
    has = f"{len(plan.removed)} servers are" if len(plan.removed) > 1 else "1 server is"
    show(f"{has} in your configuration now: {names}")
    takes_out = is_confirmed(
        f"Remove {'them' if len(plan.removed) > 1 else 'it'} from {place.host.name}? [Y/n] ", default=True
    )
    return plan if takes_out else planned(takes_out=False)


def _located(parsed: argparse.Namespace, host: KnownHost) -> tuple[HostPlace, Path]:
    """The file to edit, and the folder that it must not lead out of."""
    system, project = System.current(), Path.cwd() if parsed.project else None
    return host.place(system, project), project or system.home


def _is_agreed(parsed: argparse.Namespace, plan: connecting.HostFileChange, problem: str = "") -> bool:
    show(_page(plan, problem))
    if parsed.dry_run:
        print("nothing has been written")
        return False
    if parsed.yes or is_confirmed("Change this file? [Y/n] ", default=True):
        return True
    print("nothing has changed")
    return False


def _page(plan: connecting.HostFileChange, problem: str) -> str:
    is_new = "" if plan.file.content is not None else "  (a new file)"
    lines = [f"{plan.place.host.name}: {escaped(str(plan.place.path))}{is_new}"]
    if plan.file.is_link:
        lines.append(f"  a link leads to {escaped(str(plan.file.path))}, which is the file that changes")
    lines += [f"  {note}" for note in plan.notes]
    if problem:
        lines.append(f"  no server is removed, since your configuration can't be used: {problem}")
    return "\n".join([*lines, *plan.difference()])


@contextmanager
def _refusals_named(place: HostPlace) -> Iterator[None]:
    try:
        yield
    except NotEditable as error:
        raise CodemodeError(f"{escaped(str(place.path))}: {error}") from None
    except OSError as error:
        raise CodemodeError(f"the record of this change can't be written: {error}") from None


add_arguments_disconnect = _add_place


def run_disconnect(parsed: argparse.Namespace) -> int:
    return _for_each_host(parsed, lambda host: _disconnect(parsed, host))


def _disconnect(parsed: argparse.Namespace, host: KnownHost) -> int:
    place, within = _located(parsed, host)
    with _refusals_named(place):
        plan = connecting.plan_disconnect(place, within)
        if not _is_agreed(parsed, plan):
            return 0 if parsed.dry_run else 1
        connecting.apply(plan)
    show(f"{place.host.name} is disconnected; start it anew if it runs")
    return 0
