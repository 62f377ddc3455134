"""The `setup` command: downloads and compiles what the first program would otherwise wait for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import anyio

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import announce, load_with_warnings, show
from codemode_server.sandbox.registry import BACKENDS, SandboxSettings, Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--archive", type=Path, metavar="TAR", help="take the image from this file (docker save), without a network"
    )


def run(parsed: argparse.Namespace) -> int:
    sandbox = load_with_warnings(config_file(parsed)).settings.sandbox
    steps = anyio.run(prepare, sandbox, parsed.archive, announce)
    for step in steps:
        show(step.text)
    return 0 if all(step.is_successful for step in steps) else 1


async def prepare(settings: SandboxSettings, archive: Path | None, announce: Callable[[str], None]) -> list[Step]:
    """Prepare each backend that may run programs here.

    `archive`: take the microVMs' image from this file, without a network.
    """
    steps = [await spec.prepare(settings, archive, announce) for spec in BACKENDS]
    return [step for step in steps if step is not None]
