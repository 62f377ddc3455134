"""The tasks of `benchmarks.tasks` as a trial has them: the scripted driver solves some of them through three arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tasks.catalog import TASKS
from benchmarks.trial.__main__ import OK, main, suite
from benchmarks.trial.records import read
from scripts.npm import Unavailable

CHOSEN = ("one-setting", "log-errors", "denied-delete", "price-of-a-lamp")
"""All are solved in tests/proof/test_tasks.py; these are by files, a large result, a denied tool, and the web site."""


def test_every_task_of_ours_is_there() -> None:
    assert [task.name for task in suite("ours")] == [task.name for task in TASKS]


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(600)
def test_the_scripted_driver_solves_tasks_of_ours_through_three_arms(tmp_path: Path) -> None:
    out = tmp_path / "trial.jsonl"
    options = ["--scripted", "--runs", "1", "--budget", "100", "--prices", "3,15", "--out", str(out)]
    try:
        assert main([*options, *(word for name in CHOSEN for word in ("--only", name))]) == OK
    except* Unavailable as reasons:
        pytest.skip(str(reasons.exceptions[0]))
    runs = [line for line in read(out) if line["kind"] == "run"]
    assert {line["cell"]: line["reason"] for line in runs} == {
        f"{task}/{arm}/0": None for task in CHOSEN for arm in ("direct", "deferred", "codemode-server")
    }
