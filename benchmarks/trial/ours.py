"""The tasks of `benchmarks.tasks`: one message each, on published servers with data of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.servers import entries
from benchmarks.tasks.task import Task as ReferenceTask
from benchmarks.tasks.world import fresh_place, web_site
from benchmarks.trial.task import Opened, Solution, Task


def tasks() -> list[Task]:
    return [_trial_task(task) for task in TASKS]


def _trial_task(task: ReferenceTask) -> Task:
    return Task(
        task.name,
        "ours",
        (task.prompt,),
        task.expected,
        partial(_open, task),
        solution=(Solution(task.direct, task.programs, task.answer, task.answer if task.is_judged else ""),),
        permissions=task.permissions,
        needed=task.needed,
    )


@contextmanager
def _open(task: ReferenceTask, _folder: Path) -> Iterator[Opened]:
    with web_site() as site, fresh_place(site) as place:
        yield Opened(entries(place, task.servers), place, lambda answers: task.check(place, answers[-1]))
