"""The tasks of benchmarks/tasks on published servers: reference solutions solve them and wrong ones do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.run import run, run_wrong
from benchmarks.tasks.task import Task

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.usefixtures("real_servers")]


@pytest.fixture
def log() -> Iterator[TextIO]:
    with Path(os.devnull).open("w") as file:
        yield file


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("arm", ["direct", "codemode-server"])
async def test_the_reference_solution_solves_the_task(task: Task, arm: str, log: TextIO) -> None:
    result = await run(arm, task, log)
    assert result.fault is None, result.answer


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_the_check_refuses_wrong_solutions(task: Task, log: TextIO) -> None:
    passed = [name for name, wrong in task.wrong.items() if await run_wrong(task, wrong, log) is None]
    assert task.wrong
    assert passed == []
