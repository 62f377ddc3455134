"""Runs every task in every arm and writes TASKS.md with its picture; `make bench-tasks`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

import anyio

from benchmarks.report import measured_by
from benchmarks.tasks import curves
from benchmarks.tasks.arms import ARMS
from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.peers import PEERS
from benchmarks.tasks.report import PAGE, PICTURE, page
from benchmarks.tasks.run import Run, run, unreached
from benchmarks.tasks.task import Task
from scripts.npm import Unavailable

STARTS = 3
"""How often an arm is started before it has failed: on a loaded machine toolplane leaves out servers that are slow to
connect while it starts."""


async def started_again(arm: str, task: Task, log: TextIO) -> Run:
    for _ in range(STARTS - 1):
        try:
            return await run(arm, task, log)
        except ExceptionGroup as failures:
            if failures.subgroup(TimeoutError) is None:
                raise
    return await run(arm, task, log)


async def cost_of(arm: str, task: Task, log: TextIO) -> float:
    """The cost with caching of a task that every arm of the curves solves."""
    found = await run(arm, task, log)
    if found.fault:
        sys.exit(f"bench-tasks: {task.name}, {arm}: {found.fault}")
    return found.figures.cached


async def main(log: TextIO) -> int:
    for arm in ARMS:
        for _ in range(STARTS):
            if not (missing := await unreached(arm, log)):
                break
        else:
            sys.exit(f"bench-tasks: {arm} does not reach {', '.join(missing)}")
    results = {}
    for task in TASKS:
        for arm in ARMS:
            found = await started_again(arm, task, log)
            results[task.name, arm] = found
            print(f"{task.name}, {arm}: {found.fault or 'solved'}, {found.figures.cached:.0f}", flush=True)
    measured, texts = [], []
    for curve in curves.curves():
        costs = {arm: [await cost_of(arm, curve.task[step], log) for step in curve.steps] for arm in curves.ARMS}
        measured.append((curve, costs))
        texts.append(curves.break_even(curve, costs))
    PAGE.with_name(PICTURE).write_text(curves.picture(measured))
    PAGE.write_text(page(results, texts, measured_by("make bench-tasks")))
    return 1 if any(result.fault and arm not in PEERS for (_, arm), result in results.items()) else 0


if __name__ == "__main__":
    try:
        with Path(os.devnull).open("w") as devnull:
            code = anyio.run(main, devnull)
    except* Unavailable as reasons:
        sys.exit(f"bench-tasks: {reasons.exceptions[0]}")
    sys.exit(code)
