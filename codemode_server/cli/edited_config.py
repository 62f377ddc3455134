"""Shared by commands that edit the configuration: the file, and the trial of new servers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio

from codemode_server.cli.arguments import add_wait, config_file
from codemode_server.cli.terminal import announce, show
from codemode_server.config import LoadedSettings, locate, saving
from codemode_server.config.import_plan import ImportPlan
from codemode_server.config.loading import load_place
from codemode_server.config.places import ConfigFile, in_folder
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import SettingsError
from codemode_server.records.server_edits import SecretDestination, only
from codemode_server.support.file_records import TrustRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secrets",
        choices=("dotenv", "keyring"),
        default="dotenv",
        help="where secrets are stored: .env beside upstream.yaml (default), or the system's keyring",
    )
    parser.add_argument("--no-test", dest="is_tested", action="store_false", help="don't start what was added")
    add_wait(parser)


def located(parsed: argparse.Namespace) -> ConfigFile:
    """The file to edit. While another command edits the trusted file of this folder, that is not trusted for a moment:
    it is waited for, since the user's own file would be edited instead."""
    config = config_file(parsed)
    place = locate(config)
    here = in_folder(Path.cwd())
    if here is None or here.path == place.path:
        return place
    if TrustRecord.find(here.path) is not None:
        with saving.locked(here):
            place = locate(config)
    if here.path != place.path:
        announce(f"{here.path} is not trusted, so {place.path} is edited")
    return place


@contextmanager
def locked(place: ConfigFile) -> Iterator[EditedFile]:
    """The file, while no other command edits it; tells the person if it is to be trusted anew."""
    with saving.locked(place) as file:
        yield file
    if file.needs_trust:
        announce(file.trust_needed)


def print_added(made: ImportPlan, storage: SecretDestination, file: EditedFile) -> None:
    names = [it.name for it in made.additions]
    added = [*(names and [", ".join(names)]), *([f"for all servers {', '.join(made.env)}"] if made.env else [])]
    show(f"added {' and '.join(added)} to {file.place.path}")
    if made.secrets:
        show(f"secrets stored in {storage.place}: {', '.join(made.secrets)}")
    if made.to_set:
        lines = [f"  {name}: {why}" for name, why in made.to_set.items()]
        show("\n".join(["", f"still to be set, in the environment or as NAME=value in {file.dotenv}:", *lines]))


def tested(file: EditedFile, names: Sequence[str], wait_seconds: float) -> int:
    """Start these servers once and print their states; gives the exit code."""
    try:
        loaded = load_place(file.place)
    except SettingsError as error:
        announce(f"not started: {error}")
        return 1
    text, is_well = anyio.run(_trial, only(loaded, names), wait_seconds)
    show(f"\n{text}")
    return 0 if is_well else 1


async def _trial(loaded: LoadedSettings, wait_seconds: float) -> tuple[str, bool]:
    from codemode_server.calls.policy.effect_proposals import proposal_lines
    from codemode_server.cli.product import inspected
    from codemode_server.cli.status import is_well, servers_table

    async with inspected(loaded, wait_seconds) as app:
        servers = app.catalog().servers
        proposals = proposal_lines(loaded.settings.permissions, app.catalog())
        page = "\n".join([servers_table(servers, app.config.redactor.text), *proposals])
        return page, all(map(is_well, servers))
