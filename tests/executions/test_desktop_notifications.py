"""Notifications of questions on the desktop. There is no desktop here: a fake `notify-send`, first on the PATH, writes
down what it is called with; how it is called is real.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import ApprovalAnswer, Question
from codemode_server.domain.tools import Effect
from codemode_server.executions.approvals import desktop
from codemode_server.executions.approvals.desktop import (
    DesktopChannel,
    Notifier,
    find_notifier,
    notification,
)
from codemode_server.settings import Settings
from tests.behaviour.product import configuration, in_memory, office
from tests.executions.test_approver import Channel, asking, call, execution, settled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fake is a script with a first line")
HOSTILE = [
    '"; touch planted; "',
    "$(touch planted)",
    "`touch planted`",
    '" & do shell script "touch planted" & "',
    "'; Start-Process calc; '",
    "--help",
    "-u critical",
    "<b>bold</b><img src=x>",
    "&amp;&#65;",
    "line\nbreak\r\ttab\x00\x1b[31m",
    "\u202eevil\u200b",
    "\\",
    "x" * 5_000,
    "",
]


@dataclass
class FakeNotifySend:
    """What was called."""

    log: Path

    def calls(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]

    def shown(self) -> list[str]:
        return [it["arguments"][-1] for it in self.calls()]

    async def until(self, is_true: Callable[[], bool], seconds: float = 20) -> None:
        with anyio.fail_after(seconds):
            while not is_true():
                await anyio.sleep(0.01)


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "") -> FakeNotifySend:
    """A fake `notify-send`, first on the PATH; `then` is what it does after it has written what it got."""
    folder.mkdir(exist_ok=True)
    log, program = folder / "notify-send.log", folder / "notify-send"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, time\n"
        f"with open({str(log)!r}, 'a') as log:\n"
        "    print(json.dumps({'arguments': sys.argv[1:], 'environment': dict(os.environ), 'pid': os.getpid()}),"
        " file=log)\n"
        f"{then}\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
    return FakeNotifySend(log)


def channel(grace: float = 0.0, notify: str = "desktop") -> DesktopChannel:
    settings = Settings.model_validate({"approvals": {"notify": notify}})
    return DesktopChannel(LiveConfig(settings), grace_seconds=grace)


def question(server: str = "github", tool: str = "create_issue") -> Question:
    return Question(server, tool, "github.create_issue", Effect.WRITES, "a rule", arguments={"title": "a secret plan"})


class TestShowing:
    async def test_a_question_without_an_answer_is_shown_with_server_and_tool_and_no_values(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Through a product, with its configuration, its server and a program."""
        monkeypatch.setattr(desktop, "GRACE_SECONDS", 0.0)
        monkeypatch.setenv("GITHUB_TOKEN", "ghp_q8W2nR5tY7uI9oP1aS3dF6gH4jK0lZ")
        notifier = fake(tmp_path / "bin", monkeypatch)
        path = configuration(
            tmp_path,
            office(tmp_path, "github"),
            permissions={"rules": [{"ask": "github/list_issues"}], "default": "allow"},
            approvals={"notify": "desktop", "answer_seconds": 1, "browser": "never"},
        )
        async with in_memory(path) as host:
            answer = await host.run("from servers.github import list_issues\nlist_issues(repo='secret-plan')")
            assert answer.content["status"] == "waiting"
            await notifier.until(lambda: bool(notifier.calls()))
        (called,) = notifier.calls()
        shown = ["codemode-server", "github: list_issues waits for your approval"]
        assert called["arguments"] == ["--app-name=codemode-server", "--", *shown]
        assert "secret-plan" not in json.dumps(called)
        assert "GITHUB_TOKEN" not in called["environment"]
        assert called["environment"]["PATH"] == os.environ["PATH"], "control"

    async def test_a_question_that_is_answered_soon_is_not_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        notifier, other = fake(tmp_path, monkeypatch), Channel()
        calls = execution()
        async with asking(channel(grace=30), other) as it:
            it.begin(calls, call(calls))
            await other.wait_for(1)
            other.answer(0, ApprovalAnswer(True, channel="test"))
            await settled(it)
        assert notifier.calls() == []

    async def test_a_notifier_that_hangs_holds_up_no_answer_and_is_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        notifier, other = fake(tmp_path, monkeypatch, "time.sleep(600)"), Channel()
        calls = execution()
        async with asking(channel(), other) as it:
            it.begin(calls, call(calls))
            await other.wait_for(1)
            await notifier.until(lambda: bool(notifier.calls()))
            other.answer(0, ApprovalAnswer(True, channel="test"))
            await settled(it)
        with pytest.raises(ProcessLookupError):
            os.kill(notifier.calls()[0]["pid"], 0)


class TestWithoutANotifier:
    async def test_one_that_fails_is_logged_once_with_what_it_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        fake(tmp_path, monkeypatch, "sys.exit('no such\\nbus')")
        one = channel()
        for _ in range(2):
            await one._show("github: create_issue waits for your approval")
        (line,) = [it.message for it in caplog.records if "approvals.notify" in it.message]
        assert "failed with 1: no such" in line
        assert "\n" not in line


class TestHostileNames:
    @pytest.mark.parametrize(
        "tool", ["approve at evil.example/fix to go on", "approve\u00a0at evil.example/fix to go on"]
    )
    def test_a_name_is_one_word_and_no_address(self, tool: str) -> None:
        text = notification(question("github", tool))
        assert text == "github: approve_at_evil_example_fix_to_go_on waits for your approval"

    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize("platform", ["darwin", "win32"])
    def test_are_no_part_of_a_script(self, platform: str, name: str) -> None:
        found = find_notifier(platform, {}, exists=lambda _: True)
        assert isinstance(found, Notifier)
        command, environment = found.command_for("codemode-server", name)
        assert list(command[: len(found.command)]) == list(found.command)
        rest = list(command[len(found.command) :])
        assert (rest, environment) == (
            (["codemode-server", name], {})
            if platform == "darwin"
            else ([], {"CODEMODE_HEADING": "codemode-server", "CODEMODE_TEXT": name})
        )

    def test_the_secrets_of_the_configuration_are_masked(self) -> None:
        assert "hunter" not in notification(question(tool="a-hunter-b"), lambda text: text.replace("hunter", "***"))
