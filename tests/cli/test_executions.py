"""`codemode-server executions` and `logs` read what another process recorded."""

from __future__ import annotations

import json
import logging
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from codemode_server.cli import logs, run
from codemode_server.config import load
from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import ApprovalAnswer
from codemode_server.domain.executions import INTERRUPTED, ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.records.executions import stored_records
from tests import fork_server
from tests.behaviour.product import UPSTREAMS, configuration, in_memory, office
from tests.database import change
from tests.storage.test_upkeep import running_product
from tests.web.pages import OTHER, PROGRAM, TRIAGE, Call, State

NAME = ExecutionId("x7f3a9c21b04")
CODE = "from servers.github import get_issue\nget_issue(number=7)"


def written(folder: Path, payloads: str) -> Path:
    return configuration(folder, {}, state={"dir": str(folder / "state"), "payloads": payloads})


async def command(path: Path, *arguments: str) -> int:
    return await anyio.to_thread.run_sync(run, ["executions", *arguments, "--config", str(path)])


async def record(folder: Path) -> None:
    """One execution with one call, as a product writes it."""
    state = State(folder / "state")
    call = Call("get_issue", 1, 12.0, {"number": 7}, error="secret value 42")
    await state.execution(NAME, CODE, call, took=30.0, status=ExecutionStatus.FAILED, error="ToolError")
    state.thread.close()


async def test_one_is_shown_with_its_code_and_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "all")
    await record(tmp_path)
    assert await command(path, "show", NAME, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["sandbox"], shown["milliseconds"], shown["code"]) == ("failed", "microvm", 30, CODE)
    (call,) = shown["calls"]
    assert (call["call"], call["tool"], call["decision"], call["status"]) == (1, "github.get_issue", "allow", "failed")
    assert call["error"] == "secret value 42"
    assert await command(path, "show", NAME) == 0
    page = capsys.readouterr().out
    assert CODE in page
    assert "github.get_issue" in page


async def test_a_call_that_waited_for_a_person_is_shown_from_its_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = written(tmp_path, "all"), State(tmp_path / "state")
    await state.execution(NAME, CODE, Call("get_issue", 1, 60_000.0, {"number": 7}), took=70_000.0)
    state.thread.close()

    async def shown() -> Any:
        assert await command(path, "show", NAME, "--json") == 0
        return json.loads(capsys.readouterr().out)["calls"][0]["started_at"]

    before = await shown()
    change(tmp_path / "state", "UPDATE calls SET started_at = ended_at")  # it is recorded after the wait
    assert await shown() == before


async def test_values_are_shown_only_where_the_configuration_records_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "shapes")
    await record(tmp_path)
    assert await command(path, "show", NAME) == 0
    page = capsys.readouterr().out
    assert "sha256" in page
    assert "number=7" not in page
    assert "42" not in re.sub(r"\d\d:\d\d:\d\d", "", page)
    assert page.endswith("not shown; `state.payloads: all` in upstream.yaml shows both for later programs\n")
    assert await command(written(tmp_path, "all"), "show", NAME) == 0
    assert (page := capsys.readouterr().out).endswith(f"{CODE}\n"), "control"
    assert "secret value 42" in page


async def test_an_execution_of_a_killed_product_is_interrupted_though_no_product_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "all")

    async def shown() -> Any:
        assert await command(path, "list", "--json") == 0
        (one,) = json.loads(capsys.readouterr().out)
        return one

    with running_product(tmp_path / "state"):
        assert (await shown())["status"] == "running", "control"
    found = await shown()
    assert (found["status"], found["error"]) == ("interrupted", INTERRUPTED)
    assert await command(path, "show", found["execution_id"]) == 0
    assert "status: interrupted" in capsys.readouterr().out


@pytest.mark.parametrize("payloads", ["all", "shapes"])
async def test_what_the_journal_has_deleted_is_shown_from_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], payloads: str
) -> None:
    state = {"dir": str(tmp_path / "state"), "payloads": payloads}
    path = configuration(tmp_path, office(tmp_path, "github"), state=state)
    async with in_memory(path) as host:
        code = "from servers.github import boom, list_issues\nlist_issues(repo='a')\nboom()"
        name = (await host.run(code)).content["execution_id"]

    async def shown() -> Any:
        answers = []
        for arguments in (["list", "--json"], ["show", name, "--json"]):
            assert await command(path, *arguments) == 0
            answers.append(json.loads(capsys.readouterr().out))
        return answers

    before = await shown()
    change(tmp_path / "state", "UPDATE calls SET arguments = NULL, detail = NULL, result = NULL, error = NULL")
    change(tmp_path / "state", "UPDATE executions SET code = NULL, description = NULL, seed = NULL, value_bytes = NULL")
    after = await shown()
    assert after == before
    assert [call["status"] for call in after[1]["calls"]] == ["succeeded", "failed"], "control"


async def test_a_program_is_resumed_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diary = {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(tmp_path / "diary")]}
    path = configuration(tmp_path, {"diary": diary})
    code = "import os\nfrom servers.diary import write\nnumber = write(text='a')\n"
    async with in_memory(path) as host:
        answer = await host.run(f"{code}if not os.path.exists('/workspace/go'): raise RuntimeError\nnumber + 41")
        await host.run("open('/workspace/go', 'w').close()")
    name = answer.content["execution_id"]
    capsys.readouterr()
    assert await command(path, "resume", name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["value"] == 42
    assert await command(path, "replay", name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["value"] == 42
    assert (tmp_path / "diary").read_text() == "a\n"
    assert await command(path, "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["description"] == f"replay of {name}"
    assert await command(path, "resume", name) == 2
    assert "has succeeded" in capsys.readouterr().err


async def test_one_that_waited_and_was_answered_goes_on_with_the_time_of_all_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {"permissions": {"rules": [{"ask": "github/*"}]}, "approvals": {"answer_seconds": 1, "browser": "never"}}
    path = configuration(tmp_path, office(tmp_path, "github"), **sections)
    async with in_memory(path) as host:
        answer = await host.run("from servers.github import list_issues\nlen(list_issues(repo='a'))")
    name = answer.content["execution_id"]

    async def shown() -> Any:
        capsys.readouterr()
        assert await command(path, "show", name, "--json") == 0
        return json.loads(capsys.readouterr().out)

    before = await shown()
    assert (before["status"], before["ended_at"], before["calls"][0]["milliseconds"]) == ("waiting", None, None)
    with stored_records(load(path)) as records:
        assert records is not None
        (question,) = await records.approvals()
        await records.answer(question.approval_id, ApprovalAnswer(True, channel="command"))
    assert await command(path, "resume", name) == 0
    assert "waits for your approval" not in capsys.readouterr().err
    after = await shown()
    assert after["status"] == "succeeded"
    assert after["milliseconds"] > before["milliseconds"] > 1_000


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


@contextmanager
def tail(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    path = str(configuration(folder, {}))
    command = fork_server.command("-m", "codemode_server", "executions", "tail", *arguments, "--config", path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    with anyio.fail_after(60):
        return [(await anyio.to_thread.run_sync(process.stdout.readline)).rstrip("\n") for _ in range(count)]


async def test_events_are_printed_as_they_come_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    await state.execution("x1", PROGRAM, TRIAGE[0])
    await state.audit.extent()
    with tail(tmp_path, "--lines", "2") as process:
        earlier = await lines(process, 2)
        await state.execution("x9", "1", principal=OTHER)
        await state.execution("x2", "1/0", Call("get_issue", 1, 5, error="no such"), status=ExecutionStatus.FAILED)
        await state.audit.extent()
        with closing(sqlite3.connect(tmp_path / "state" / "codemode.db")) as other:
            other.execute("BEGIN IMMEDIATE")  # it reads while another process writes
            with anyio.fail_after(60):
                printed = await lines(process, 4)
        process.send_signal(signal.SIGINT)
        assert await anyio.to_thread.run_sync(process.wait) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
    state.thread.close()
    assert [line.split(" ", 1)[1] for line in earlier] == [
        "x1 call 1 github.list_issues: succeeded after 110 ms",
        "x1 succeeded after 1,000 ms",
    ]
    assert [line.split(" ", 1)[1] for line in printed] == [
        "x2 started in microvm",
        "x2 call 1 github.get_issue: allow, rule 1 of permissions.rules (allow: github/list_*)",
        "x2 call 1 github.get_issue: failed after 5 ms: no such",
        "x2 failed after 1,000 ms",
    ]


def logged(folder: Path, *messages: str) -> Path:
    """Log as a product does; gives the configuration."""
    path = configuration(folder, {})
    logs.start(folder / "state" / "logs", LiveConfig())
    for message in messages:
        logging.getLogger("codemode_server.upstreams.pool").info("%s", message)
    for handler in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()
    return path


async def printed(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert await anyio.to_thread.run_sync(run, ["logs", *arguments, "--config", str(path)]) == 0
    return capsys.readouterr().out.splitlines()


async def test_the_newest_records_are_printed_the_newest_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logged(tmp_path, "one", "two", "three")
    found = await printed(path, capsys, "--lines", "2")
    assert [line.partition(": ")[2] for line in found] == ["two", "three"]
