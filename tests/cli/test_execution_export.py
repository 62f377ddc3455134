"""`codemode-server executions export`: what ran, for other software, masked as the records are shown everywhere."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

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


async def test_executions_are_lines_of_json_oldest_first_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await exported(await recorded(tmp_path), capsys)
    executions = [json.loads(line) for line in text.splitlines()]
    assert [it["execution_id"] for it in executions] == ["x1", "x2", "x3"], "and none of another principal"
    assert executions[0]["code"] == PROGRAM
    assert executions[0]["calls"][1]["arguments"] == {"number": 1}
    assert executions[0]["calls"][1]["result"] == {"number": 1}
    assert SECRET not in text
    assert "\x1b" not in text


async def test_a_file_is_new_and_private(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = await recorded(tmp_path), tmp_path / "out.json"
    assert await exported(path, capsys, "--output", str(output)) == ""
    assert len(output.read_text().splitlines()) == 3
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert await command(path, "export", "--output", str(output)) == 2
    assert "is there already; name a new file" in capsys.readouterr().err
