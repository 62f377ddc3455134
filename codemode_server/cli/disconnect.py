"""The `disconnect` command: takes back what `connect` did to a host's file."""

from __future__ import annotations

import argparse

from codemode_server.cli.connect import add_place, agreed, located, made, refused
from codemode_server.cli.terminal import show
from codemode_server.config.host_files import connecting
from codemode_server.config.host_files.spans import HostFileNotEditable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)


def run(parsed: argparse.Namespace) -> int:
    place, within = located(parsed)
    try:
        plan = connecting.plan_disconnect(place, within)
    except HostFileNotEditable as error:
        raise refused(place, error) from None
    if not agreed(parsed, plan):
        return 0 if parsed.dry_run else 1
    made(plan)
    show(f"{place.host.name} is disconnected; start it anew if it runs")
    return 0
