"""A whole trial without a model: real servers and the real product, asked by the fake endpoint of the scripted driver,
which speaks both wire formats on loopback. It fails, ends and is killed as trials are, and goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trial.__main__ import OK, STOPPED, WRONG, main
from benchmarks.trial.records import Records, RecordsError, read
from benchmarks.trial.scripted import Answer, Scripted
from tests.answering import Asked
from tests.trial.shop_tasks import tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
ARMS = ("direct", "codemode-server")
CELLS = {f"{task}/{arm}/0" for task in ("order", "price") for arm in ARMS}


def arguments(url: str, out: Path, wire: str = "openai", budget: str = "5", runs: str = "1") -> list[str]:
    named = {"--model": "fake", "--runs": runs, "--budget": budget, "--prices": "3,15,0.3,3.75", "--out": str(out)}
    named |= {"--tasks": "tests.trial.shop_tasks", "--base-url": url, "--wire": wire}
    named |= {"--max-output-tokens": "100"}
    return [word for pair in (*named.items(), *(("--arm", arm) for arm in ARMS)) for word in pair]


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read(path) if line["kind"] == kind]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_every_task_is_run_through_every_arm_and_judged_by_its_own_check(tmp_path: Path, wire: str) -> None:
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks()).serve() as url:
        assert main([*arguments(url, out, wire), "--arm", "deferred"]) == OK
    first, *others = read(out)
    assert first["kind"] == "plan"
    assert {line["plan"] for line in others} == {first["plan"]}
    runs = {line["cell"]: line for line in of_kind(out, "run")}
    assert set(runs) == {*CELLS, "order/deferred/0", "price/deferred/0"}
    assert {cell: run["reason"] for cell, run in runs.items() if not run["passed"]} == {
        "price/direct/0": "not the price: It costs 8.",
        "price/codemode-server/0": "not the price: It costs 8.",
        "price/deferred/0": "not the price: It costs 8.",
    }
    turns = {arm: runs[f"order/{arm}/0"]["turns"] for arm in (*ARMS, "deferred")}
    assert turns == {"direct": 5, "codemode-server": 4, "deferred": 6}
    for cell, run in runs.items():
        requests = [line for line in of_kind(out, "request") if line.get("cell") == cell]
        assert run["cost"] == pytest.approx(sum(line["cost"] for line in requests))
        assert run["usage"]["output"] == sum(line["usage"]["output"] for line in requests) > 0
    assert sum(run["usage"]["read"] for run in runs.values()) > 0


def test_a_limit_of_rates_and_a_broken_answer_of_the_endpoint_change_nothing(tmp_path: Path) -> None:
    faults: list[Answer] = [(429, {"retry-after": "0"}, b"{}"), (529, {"retry-after": "0"}, b"overloaded")]
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks(), lambda _: faults.pop() if faults else None).serve() as url:
        assert main(arguments(url, out)) == OK
    assert faults == []
    assert {line["cell"] for line in of_kind(out, "run")} == CELLS


def test_the_budget_stops_before_it_is_exceeded_and_a_larger_one_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rounds cost 0.026 by these prices, and a request is estimated at 0.01 at most."""
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks()).serve() as url:
        assert main(arguments(url, out, budget="0.02", runs="2")) == STOPPED
        assert "larger --budget" in capsys.readouterr().err
        before = of_kind(out, "run")
        assert 0 < len(before) < 2 * len(CELLS)
        assert 0 < sum(line["cost"] for line in of_kind(out, "request")) <= 0.02
        assert main(arguments(url, out, runs="2")) == OK
    after = of_kind(out, "run")
    assert after[: len(before)] == before
    assert Counter(line["cell"] for line in after) == Counter({f"{cell[:-1]}{n}" for cell in CELLS for n in "01"})


def test_a_killed_trial_goes_on_with_the_runs_that_have_no_record(tmp_path: Path) -> None:
    out, reached, go_on = tmp_path / "trial.jsonl", threading.Event(), threading.Event()
    asked = 0

    def stop_in_the_third_run(_: Asked) -> None:
        nonlocal asked
        asked += 1
        if len(of_kind(out, "run")) == 2:
            reached.set()
            go_on.wait()

    with Scripted(tasks(), stop_in_the_third_run).serve() as url:
        command = [sys.executable, "-m", "benchmarks.trial", *arguments(url, out)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
        process = subprocess.Popen(command, env=environment, cwd=ROOT)
        try:
            assert reached.wait(400)
        finally:
            process.kill()
            process.wait()
            go_on.set()
        before, asked_before = of_kind(out, "run"), asked
        with out.open("a") as file:
            file.write('{"kind": "req')  # as a kill while it is written
        assert main(arguments(url, out)) == OK
    after = of_kind(out, "run")
    assert after[:2] == before
    assert Counter(line["cell"] for line in after) == Counter(CELLS)
    assert asked > asked_before


def test_records_of_another_plan_stop_it_and_the_message_says_what_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks()).serve() as url:
        assert main(arguments(url, out)) == OK
        before = out.read_bytes()
        assert main(arguments(url, out, runs="2")) == WRONG
    assert "changed: runs." in capsys.readouterr().err
    assert out.read_bytes() == before


def test_two_tasks_of_one_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Scripted(tasks()).serve() as url:
        assert main([*arguments(url, tmp_path / "trial.jsonl"), "--tasks", "tests.trial.shop_tasks"]) == WRONG
    assert "same name" in capsys.readouterr().err


def test_two_trials_never_write_to_one_file(tmp_path: Path) -> None:
    records = Records(tmp_path / "trial.jsonl", {"tasks": {}})
    with pytest.raises(RecordsError, match="another trial is writing"):
        Records(tmp_path / "trial.jsonl", {"tasks": {}})
    records.close()
    Records(tmp_path / "trial.jsonl", {"tasks": {}}).close()


@pytest.mark.parametrize("status", [401, 400], ids=["key", "parameter"])
def test_what_the_endpoint_refuses_at_once_stops_the_trial(tmp_path: Path, status: int) -> None:
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks(), lambda _: (status, {}, b"no")).serve() as url:
        assert main(arguments(url, out)) == WRONG
    assert [line["kind"] for line in read(out)] == ["plan"]


def test_a_conversation_that_the_endpoint_refuses_is_a_failed_run(tmp_path: Path) -> None:
    """Definitions that are too many or a result that is too long are what an arm is about."""
    out = tmp_path / "trial.jsonl"
    with Scripted(tasks(), lambda asked: (400, {}, b"too long") if b'"tools"' in asked.body else None).serve() as url:
        assert main(arguments(url, out)) == OK
    reasons = {line["cell"]: line["reason"] for line in of_kind(out, "run")}
    assert reasons == dict.fromkeys(CELLS, "the endpoint refused the conversation: HTTP 400: too long")
