"""What is fixed before the first run: tasks, expected winners, margins, versions, and the order; and its hash."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.trial.task import Task
from codemode_server import __version__

ROOT = Path(__file__).resolve().parents[2]
READERS = {ROOT / "benchmarks" / "trial" / name for name in ("figures.py", "report.py")}
MARGIN = 0.10
"""Non-inferiority is claimed at ten points and never finer: with some dozens of tasks an interval has 6 to 8."""
MAX_TURNS = 40
"""Requests after one message of the user; then the run has failed."""


@dataclass(frozen=True)
class Cell:
    """One run: a task through an arm."""

    number: int
    task: str
    arm: str

    @property
    def key(self) -> str:
        return f"{self.task}/{self.arm}/{self.number}"


def plan(tasks: Sequence[Task], arms: Sequence[str], runs: int, seed: int, endpoint: dict[str, Any]) -> dict[str, Any]:
    """All that a record's hash covers."""
    tuned = tuning(tasks)
    return {
        "tasks": {task.name: task.frozen() | {"tuning": task.name in tuned} for task in tasks},
        "arms": list(arms),
        "runs": runs,
        "seed": seed,
        "endpoint": endpoint,
        "margins": {"non_inferiority": MARGIN, "max_turns": MAX_TURNS},
        "versions": {
            "codemode-server": __version__,
            "python": platform.python_version(),
            "product's code": digest("codemode_server"),
            "locks of servers": digest("requirements", files="*"),
            "tasks' and trial's code": digest("benchmarks/tasks", "benchmarks/trial"),
        },
    }


def digest(*folders: str, files: str = "*.py") -> str:
    """Digest of the files in folders of the repository, but for the code that only reads records."""
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob(files)):
        if path.is_file() and path not in READERS:
            found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def without_key(**more: str) -> dict[str, str]:
    """The environment for code of others."""
    return {name: value for name, value in os.environ.items() if name != "TRIAL_KEY"} | more


def hash_of(plan: dict[str, Any]) -> str:
    text = json.dumps(plan, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tuning(tasks: Iterable[Task]) -> set[str]:
    """The names of every second task of each suite: what is tuned may be tuned on them, not on the others."""
    ordered = sorted(tasks, key=lambda task: (task.suite, hashlib.sha256(task.name.encode()).digest()))
    suites = {task.suite: [it.name for it in ordered if it.suite == task.suite] for task in ordered}
    return {name for names in suites.values() for name in names[::2]}


def cells(tasks: Sequence[Task], arms: Sequence[str], runs: int, seed: int) -> list[Cell]:
    """All runs: in each round every task in random order, its arms beside each other in random order, so that what
    changes with time changes all arms alike."""
    order = random.Random(seed)
    found = []
    for number in range(runs):
        for task in order.sample([task.name for task in tasks], len(tasks)):
            found += [Cell(number, task, arm) for arm in order.sample(list(arms), len(arms))]
    return found


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """The places in which two plans differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        return [it for key in keys for it in differences(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))]
    return [] if old == new else [where]
