"""All tasks: two for each shape."""

from __future__ import annotations

from benchmarks.tasks import lookups, reducing, writing
from benchmarks.tasks.task import Task

TASKS: tuple[Task, ...] = (*lookups.TASKS, *reducing.TASKS, *writing.TASKS)
