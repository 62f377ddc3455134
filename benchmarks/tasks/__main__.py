"""Runs every task in every arm and prints what each cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from benchmarks.tasks.arms import ARMS
from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.run import run
from scripts.npm import Unavailable


async def main() -> int:
    failed = False
    with Path(os.devnull).open("w") as log:  # noqa: ASYNC230 - before anything runs
        for task in TASKS:
            for arm in ARMS:
                result = await run(arm, task, log)
                failed = failed or result.fault is not None
                print(task.name, arm, result.fault or "solved", result.figures)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(anyio.run(main))
    except* Unavailable as reasons:
        sys.exit(f"bench-tasks: {reasons.exceptions[0]}")
