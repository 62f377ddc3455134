"""The `disconnect` command: takes back what `connect` did to a host's file."""

from __future__ import annotations

import argparse

from codemode_server.cli.connect import add_place, is_agreed, located, refusals_named
from codemode_server.cli.terminal import show
from codemode_server.config import connecting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)


def run(parsed: argparse.Namespace) -> int:
    place, within = located(parsed)
    with refusals_named(place):
        plan = connecting.plan_disconnect(place, within)
        if not is_agreed(parsed, plan):
            return 0 if parsed.dry_run else 1
        connecting.apply(plan)
    show(f"{place.host.name} is disconnected; start it anew if it runs")
    return 0
