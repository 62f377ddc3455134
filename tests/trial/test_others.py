"""Tasks of tau2 and BFCL on their own engines, as installed from PyPI: their reference calls solve them by their own
checks, others do not, and the scripted driver gets there through three arms."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from benchmarks.tasks.task import Call
from benchmarks.trial import others
from benchmarks.trial.__main__ import OK, main
from benchmarks.trial.others import tasks_of
from benchmarks.trial.records import read
from benchmarks.trial.task import Task
from scripts.npm import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(600)]
READS = ("get", "find", "search", "list", "calculate")


def tasks(engine: str) -> list[Task]:
    try:
        return tasks_of(engine)
    except Unavailable as error:
        pytest.skip(str(error))


def judged(task: Task, folder: Path, calls: Sequence[Sequence[Call]], answers: Sequence[str]) -> str | None:
    """What the check says of these calls, one after the other, after each message."""
    folder.mkdir()
    with task.open(folder) as state:
        for number, each in enumerate(calls):
            state.before_message(number)
            with (folder / "journal.jsonl").open("a") as journal:
                for call in each:
                    journal.write(json.dumps({"tool": call.name, "arguments": call.arguments}) + "\n")
        return state.check(answers)


@pytest.mark.parametrize("engine", ["tau2", "bfcl"])
def test_the_reference_calls_solve_each_task_and_the_same_without_the_last_that_counts_do_not(
    engine: str, tmp_path: Path
) -> None:
    found = tasks(engine)
    assert len(found) == 8
    for task in found:
        calls = [[call for turn in solution.calls for call in turn] for solution in task.solution]
        answers = [solution.answer for solution in task.solution]
        assert judged(task, tmp_path / task.name, calls, answers) is None
        last = max(
            number for number, call in enumerate(calls[-1]) if not call.name.startswith(READS) or engine == "bfcl"
        )
        fewer = [*calls[:-1], [call for number, call in enumerate(calls[-1]) if number != last]]
        assert judged(task, tmp_path / f"{task.name}-fewer", fewer, answers), task.name


def test_what_a_customer_wants_to_know_must_be_in_the_answer(tmp_path: Path) -> None:
    task = next(task for task in tasks("tau2") if task.name == "airline-18")
    calls = [[call for turn in task.solution[0].calls for call in turn]]
    assert judged(task, tmp_path / "silent", calls, ["Done."]) == "the answer lacks 23553"
    assert judged(task, tmp_path / "told", calls, ["You have saved $23,553 in all."]) is None


def test_an_engine_does_not_see_the_key_of_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAL_KEY", "secret")
    program = "import json, os, sys; json.dump([], sys.stdout) if 'TRIAL_KEY' not in os.environ else sys.exit('seen')"
    monkeypatch.setattr(others, "_command", lambda *_: [sys.executable, "-c", program])
    assert tasks_of("tau2") == []


async def test_a_server_that_starts_again_has_the_state_of_its_journal(tmp_path: Path) -> None:
    """A product may start a server again in the middle of a conversation."""
    task = next(task for task in tasks("bfcl") if task.name == "multi_turn_base_0")
    with task.open(tmp_path) as state:
        state.before_message(0)
        entry = state.servers["gorillafilesystem"]

        async def asked(tool: str, **arguments: str) -> str:
            process = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"])
            async with Client(process, mode="legacy") as client:
                result = await client.call_tool(tool, arguments)
            return "".join(getattr(block, "text", "") for block in result.content)

        assert "document" not in await asked("pwd")
        await asked("cd", folder="document")
        assert "document" in await asked("pwd")


def test_the_scripted_driver_solves_one_of_each_through_three_arms(tmp_path: Path) -> None:
    out, only = tmp_path / "trial.jsonl", ["--only", "airline-17", "--only", "multi_turn_base_0"]
    tasks("tau2")
    options = ["--scripted", "--runs", "1", "--budget", "100", "--prices", "3,15", "--out", str(out)]
    assert main([*options, *only, "--tasks", "tau2", "--tasks", "bfcl"]) == OK
    runs = [line for line in read(out) if line["kind"] == "run"]
    assert {line["cell"]: line["reason"] for line in runs} == {
        f"{task}/{arm}/0": None
        for task in ("airline-17", "multi_turn_base_0")
        for arm in ("direct", "deferred", "codemode-server")
    }
