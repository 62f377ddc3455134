"""The tasks of benchmarks/tasks on published servers: reference solutions solve them at the cost that TASKS.md has, and
wrong solutions do not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.report import PAGE, exact
from benchmarks.tasks.run import run, run_wrong, unreached
from benchmarks.tasks.task import Task

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.usefixtures("task_servers")]

ARMS = ["direct", "codemode-server"]


@pytest.fixture
def log() -> Iterator[TextIO]:
    with Path(os.devnull).open("w") as file:
        yield file


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("arm", ARMS)
async def test_the_reference_solution_solves_the_task_at_the_published_cost(task: Task, arm: str, log: TextIO) -> None:
    """If this fails after a change of what the model reads: `make bench-tasks`. A changed sentence moves tokens by less
    than a twentieth, and then the page may stay."""
    result = await run(arm, task, log)
    assert result.fault is None, result.answer
    found = result.figures
    *tokens, turns, calls = exact(PAGE.read_text())[task.name, arm]
    assert (found.turns, found.calls) == (turns, calls)
    assert [found.definitions, found.requests, found.results] == pytest.approx(tokens, rel=0.05, abs=10)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_the_check_refuses_wrong_solutions(task: Task, log: TextIO) -> None:
    passed = [name for name, wrong in task.wrong.items() if await run_wrong(task, wrong, log) is None]
    assert task.wrong
    assert passed == []


async def test_every_tool_of_ten_servers_is_reached(log: TextIO) -> None:
    """A product that loses a server in silence would look cheap."""
    assert await unreached("codemode-server", log) == []


def test_there_are_two_tasks_for_each_shape_and_ten_that_code_is_not_expected_to_win() -> None:
    assert set(Counter(task.shape for task in TASKS).values()) == {2}
    assert len(TASKS) == len({task.name for task in TASKS}) == 24
    assert sum(task.expected != "code" for task in TASKS) >= 10
