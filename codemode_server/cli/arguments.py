"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--config`, which may stand before or after the command: a default would overwrite the one before it."""
    parser.add_argument(
        "--config",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="default: $CODEMODE_CONFIG, ./upstream.yaml, then the user's config folder",
    )


def config_file(parsed: argparse.Namespace) -> Path | None:
    return getattr(parsed, "config", None)


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", type=seconds, default=30.0, metavar="SECONDS", help="for the upstreams; default 30")


def days(text: str) -> float:
    """A number of days: `30` or `30d`."""
    with suppress(ValueError):
        if 0 < (number := float(text.removesuffix("d"))) <= 100_000:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number of days")


def count(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= 1_000_000:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1,000,000")


def seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 86_400:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
