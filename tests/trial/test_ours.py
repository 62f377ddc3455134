"""The tasks of `benchmarks.tasks` as a trial has them: the scripted driver solves each through both arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tasks.catalog import TASKS
from benchmarks.trial.__main__ import OK, main
from benchmarks.trial.records import read
from scripts.npm import Unavailable


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(600)
def test_the_scripted_driver_solves_every_task_of_ours_through_both_arms(tmp_path: Path) -> None:
    out = tmp_path / "trial.jsonl"
    try:
        assert main(["--scripted", "--runs", "1", "--budget", "100", "--prices", "3,15", "--out", str(out)]) == OK
    except* Unavailable as reasons:
        pytest.skip(str(reasons.exceptions[0]))
    runs = [line for line in read(out) if line["kind"] == "run"]
    assert {line["cell"]: line["reason"] for line in runs} == {
        f"{task.name}/{arm}/0": None for task in TASKS for arm in ("direct", "codemode-server")
    }
