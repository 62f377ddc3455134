"""The commands `config`, which checks `upstream.yaml` or prints its JSON Schema, and `trust`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import announce, is_confirmed, show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.description import describe, preview
from codemode_server.config.loading import Untrusted, load_place
from codemode_server.config.places import NAME, ConfigFile, in_folder
from codemode_server.config.settings import json_schema
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.support.file_records import TrustRecord
from codemode_server.support.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="check")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("check", help="print what was understood; the default")
    actions.add_parser("schema", help="print the JSON Schema for editors")


def run(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        print(json.dumps(json_schema(), indent=2))
        return 0
    loaded = load(config_file(parsed), require_trust=False)
    for error in loaded.server_errors:
        announce(error)
    show(describe(loaded, _warnings_of_rules(loaded)))
    obstacles = _obstacles(loaded)
    for line in obstacles:
        announce(loaded.redactor.text(line))
    return 2 if loaded.server_errors else 1 if obstacles else 0


def _obstacles(loaded: LoadedSettings) -> Sequence[str]:
    """What this machine lacks for these settings, without which the server does not start or not as they say. What is
    not trusted is not tried: it may name code to run, and folders."""
    if not loaded.is_trusted:
        return ()
    from codemode_server.cli.doctor import check_parts, examine_sandbox

    settings = loaded.settings
    # The password may come from a command, which this check does not run.
    is_unread = "${" in (settings.state.database_password or "")
    checks = [it for it in check_parts(settings) if not (is_unread and it.name == "database")]
    lines = [it.line for it in checks if it.is_obstacle]
    sandbox = settings.sandbox.model_copy(update={"packages": ()})  # those are installed at the start
    report = anyio.run(partial(examine_sandbox, sandbox, boot=False))
    if not report.is_met:
        lines.append(f"sandbox: programs would run in {report.destination}; see `codemode-server doctor`")
    return lines


def _warnings_of_rules(loaded: LoadedSettings) -> Sequence[str]:
    """Of rules that match no tool as of the last run, too; the state folder of an untrusted file is not opened."""
    if not loaded.settings.permissions.rules:
        return ()
    from codemode_server.calls.policy.explanation import rules_by_spelling, rules_without_tools
    from codemode_server.records.known_tools import KnownTools

    unmatched: list[str] = []
    with suppress(CodemodeError, OSError):  # `status` and `doctor` say what is wrong with the state folder
        if loaded.is_trusted:
            with KnownTools.of(loaded) as known:
                unmatched += rules_without_tools(loaded.settings.permissions, known.catalog)
    return [*unmatched, *rules_by_spelling(loaded.settings.permissions)]


def add_arguments_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="default: the current folder")
    parser.add_argument("--yes", action="store_true", help="trust what is shown without being asked")
    parser.add_argument("--list", action="store_true", help="list the trusted files")
    parser.add_argument("--remove", action="store_true", help="stop trusting this folder's file")


def run_trust(parsed: argparse.Namespace) -> int:
    if parsed.list:
        show(listing())
        return 0
    if parsed.remove:
        show(withdraw(parsed.folder))
        return 0
    loaded = examine(parsed.folder)
    before = TrustRecord.find(_path(loaded))
    changed = (
        [] if before is None else [it for it, digest in loaded.digests.items() if before.digests.get(it) != digest]
    )
    if changed:
        show(f"changed since you trusted it: {escaped(', '.join(changed))}\n")
    show(f"{preview(loaded)}\n")
    if loaded.is_trusted:
        print("this file is already trusted")
        return 0
    if not parsed.yes and not is_confirmed("Trust this file, so that servers are started as it says? [y/N] "):
        print("not trusted; nothing has changed")
        return 1
    show(trust(loaded))
    return 0


def examine(folder: Path) -> LoadedSettings:
    """The configuration file of the folder, read without running anything for it."""
    place = in_folder(folder)
    if place is None:
        raise CodemodeError(f"there is no {NAME} in {folder.resolve()}, so there is nothing to trust")
    return load_place(place, require_trust=False, resolve=False)


def trust(loaded: LoadedSettings) -> str:
    try:
        TrustRecord(path=_path(loaded), digests=dict(loaded.digests)).write()
    except (OSError, ValueError) as error:
        raise CodemodeError(f"can't save the trust record: {error}") from error
    return f"trusted: {loaded.path}; sessions that start in this folder use it, until it changes"


def withdraw(folder: Path) -> str:
    try:
        is_removed = TrustRecord.forget(folder.resolve() / NAME)
    except OSError as error:
        raise CodemodeError(f"can't remove the trust record: {error}") from error
    if not is_removed:
        raise CodemodeError(f"no file in {folder.resolve()} is trusted; `codemode-server trust --list` shows which are")
    return f"no longer trusted: {folder.resolve()}; servers that run already go on until they restart"


def listing() -> str:
    lines = [f"{escaped(str(found.path))}{_state(found.path)}" for found in TrustRecord.all()]
    return "\n".join(lines) or "nothing is trusted"


def _state(path: Path) -> str:
    if not path.is_file():
        return "  (gone)"
    try:
        load_place(ConfigFile(path, is_in_current_folder=True), resolve=False)
    except SettingsError as error:
        is_changed = isinstance(error, Untrusted) and error.is_changed
        return "  (has changed, so it is not used)" if is_changed else "  (can't be used)"
    return ""


def _path(loaded: LoadedSettings) -> Path:
    assert loaded.path is not None  # noqa: S101 - `examine` found it
    return loaded.path
