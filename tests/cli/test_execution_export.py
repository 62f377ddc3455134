"""`codemode-server executions export`: what ran, for other software, masked as the records are shown everywhere."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.executions import ExecutionStatus
from tests.behaviour.product import configuration
from tests.cli.test_executions import command
from tests.web.pages import OTHER, PROGRAM, TRIAGE, Call, State

SECRET = "ghp_Zk3vX9mQ2rT7wL5nB8cD4fG6hJ1"
DAY = 86_400.0


async def recorded(folder: Path, payloads: str = "all") -> Path:
    servers = {"github": {"command": "nothing", "enabled": False, "env": {"TOKEN": SECRET}}}
    path = configuration(folder, servers, state={"dir": str(folder / "state"), "payloads": payloads})
    state = State(folder / "state")
    now = time.time()
    await state.execution("x1", PROGRAM, *TRIAGE, at=now - 9 * DAY, took=2_200, description="triage")
    call = Call("get_issue", 1, 5, {"token": SECRET}, {"text": "a\x1b[2Jb"})
    await state.execution("x2", f"token = '{SECRET}'", call, at=now - DAY)
    await state.execution("x3", "1/0", at=now, status=ExecutionStatus.FAILED, error="ZeroDivisionError: division")
    await state.execution("x4", "1", at=now, principal=OTHER)
    state.thread.close()
    return path


async def exported(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert await command(path, "export", *arguments) == 0
    return capsys.readouterr().out


async def test_json_and_lines_hold_the_same_executions_oldest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await recorded(tmp_path)
    whole = json.loads(await exported(path, capsys))
    assert [it["execution_id"] for it in whole] == ["x1", "x2", "x3"], "and none of another principal"
    assert whole[0]["code"] == PROGRAM
    assert whole[0]["calls"][1]["arguments"] == {"number": 1}
    assert whole[0]["calls"][1]["result"] == {"number": 1}
    lines = await exported(path, capsys, "--format", "jsonl")
    assert [json.loads(line) for line in lines.splitlines()] == whole


@pytest.mark.parametrize("form", ["json", "jsonl", "session"])
async def test_secrets_are_masked_and_nothing_controls_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = await recorded(tmp_path)
    text = await exported(path, capsys, "--format", form)
    assert "x2" in text, "control"
    assert SECRET not in text
    assert "\x1b" not in text


async def test_sessions_have_the_form_of_the_logs_in_the_workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await recorded(tmp_path)
    (session,) = json.loads(await exported(path, capsys, "--format", "session"))
    assert (session["session_id"], session["customer_uid"]) == ("session-s1", "default")
    tasks: list[dict[str, Any]] = session["tasks"]
    assert [(it["task_id"], it["description"], it["status"]) for it in tasks] == [
        ("x1", "triage", "succeeded"),
        ("x2", "", "succeeded"),
        ("x3", "", "failed"),
    ]
    assert (tasks[0]["code"], tasks[2]["error"]) == (PROGRAM, "ZeroDivisionError: division")


async def test_a_file_is_new_and_private(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = await recorded(tmp_path), tmp_path / "out.json"
    assert await exported(path, capsys, "--output", str(output)) == ""
    assert len(json.loads(output.read_text())) == 3
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert await command(path, "export", "--output", str(output)) == 2
    assert "is there already; name a new file" in capsys.readouterr().err
