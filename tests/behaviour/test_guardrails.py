"""Guardrails in the product: real upstreams and a real sandbox, with guardrails of the test's own.

What they leave of a call is what is asked about, sent, recorded and audited; nothing that they do loosens a rule.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.features.guardrails import (
    Ask,
    Block,
    Change,
    GuardedCall,
    GuardedProgram,
    GuardedResult,
    Guardrail,
    Pass,
    ProgramResult,
)
from tests.files import contents

from .person import Person
from .product import configuration, in_memory

pytestmark = pytest.mark.slow

CREATE = "from servers.github import create_issue\n"
WITHHELD = """
from codemode import ToolError
from servers.google_drive import get_document
try:
    get_document("secret plan")
except ToolError as error:
    print(error.kind, error)
"""
STORED = "import codemode\n[str(codemode.results[it])[:100] for it in codemode.results]"
ISSUE = CREATE + "create_issue('acme', 'web', 'Bug')"


class Footer(Guardrail):
    """Adds a line to each issue."""

    def before_call(self, call: GuardedCall) -> Any:
        return Change({**call.arguments, "body": "(made by a program)"}, "issues have a footer")


class OwnerIsOther(Guardrail):
    """Sends issues of `acme` to `other`."""

    def before_call(self, call: GuardedCall) -> Any:
        return Change({**call.arguments, "owner": "other"}, "moved")


class NoLoops(Guardrail):
    def before_program(self, program: GuardedProgram) -> Any:
        if "ask me" in program.code:
            return Ask("it says so")
        return Block("no endless loops") if "while True" in program.code else Pass()


class NoPrices(Guardrail):
    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        if "secret plan" in str(call.arguments):
            return Block("plans stay where they are")
        if "price" in str(result.value):
            return Change({**result.value, "content": "[removed]"}, "prices are private")
        return Pass()


class ShortResults(Guardrail):
    def on_result(self, program: GuardedProgram, result: ProgramResult) -> Any:
        if "hide" in str(result):
            return Block("hidden")
        if "slow" in str(result):
            LOOKING.set()
            time.sleep(1)
        return Pass()


LOOKING = threading.Event()


def rails(*names: str, **more: Any) -> dict[str, Any]:
    return {"guardrails": [{"use": f"{__name__}:{name}"} for name in names], **more}


class TestBeforeACall:
    async def test_a_blocked_call_is_not_sent_and_changed_arguments_are(self, tmp_path: Path) -> None:
        """The program is told of both."""
        rail = {"use": "domains", "settings": {"allow": ["good.example"]}}
        rails_of_both = [rail, {"use": f"{__name__}:Footer"}]
        async with in_memory(configuration(tmp_path, guardrails=rails_of_both)) as host:
            blocked = await host.run(CREATE + "create_issue('acme', 'web', 'see https://evil.example')")
            assert "guardrail 'domains'" in blocked.text
            assert "tell the user" in blocked.text
            assert host.reached("create_issue") == []
            assert "the arguments were changed by guardrail" in (await host.run(ISSUE)).text
            assert host.reached("create_issue")[0]["body"] == "(made by a program)"

    @pytest.mark.parametrize("decision", ["deny", "ask"])
    async def test_a_change_loosens_no_rule(self, tmp_path: Path, decision: str) -> None:
        rules = {"rules": [{decision: "github/create_issue", "when": "args.owner == 'acme'"}]}
        person = Person(action="decline")
        path = configuration(tmp_path, **rails("OwnerIsOther", permissions=rules))
        async with in_memory(path, elicitation_callback=person.elicit) as host:
            await host.run(ISSUE)
            assert host.reached("create_issue") == []
            await host.run(ISSUE.replace("acme", "else"))
            assert [it["owner"] for it in host.reached("create_issue")] == ["other"], "control"


class TestAfterACall:
    async def test_the_program_gets_the_changed_result(self, tmp_path: Path) -> None:
        async with in_memory(configuration(tmp_path, **rails("NoPrices"))) as host:
            answer = await host.run("from servers.google_drive import get_document\nget_document('a')")
            assert answer.value == {"title": "Notes on a", "content": "[removed]"}
            assert "the result was changed by guardrail" in answer.text

    @pytest.mark.parametrize("names", [("NoPrices",), ()], ids=["guarded", "control"])
    async def test_a_withheld_result_reaches_no_later_program(self, tmp_path: Path, names: tuple[str, ...]) -> None:
        """The results of the calls of a program that failed are stored for later ones."""
        async with in_memory(configuration(tmp_path, **rails(*names))) as host:
            failed = await host.run(f"{WITHHELD}\nget_document('b')\n1 / 0")
            execution_id = failed.content["execution_id"]
            calls = f"[it for number in (1, 2) if (it := results.get(f'{execution_id}/calls/{{number}}'))]"
            later = await host.run(f"from codemode import results\nstr({calls})")
            assert "Notes on b" in later.text
            assert ("price" in later.text) is (not names)


async def test_a_blocked_program_does_not_run_and_a_question_about_one_is_asked_about_its_calls(tmp_path: Path) -> None:
    person = Person(action="decline")
    async with in_memory(configuration(tmp_path, **rails("NoLoops")), elicitation_callback=person.elicit) as host:
        answer = await host.run(ISSUE + "\nwhile True: pass")
        assert answer.error["type"] == "GuardrailBlocked"
        assert "no endless loops" in answer.text
        await host.run(ISSUE + "  # ask me")
        assert "it says so" in person.seen[0].message
        assert host.reached() == []
        assert (await host.run(ISSUE)).value["number"] == 1, "control"


class TestTheResult:
    async def test_a_withheld_result_is_stored_nowhere(self, tmp_path: Path) -> None:
        async with in_memory(configuration(tmp_path, **rails("ShortResults"))) as host:
            answer = await host.run("print('hide' + '!' * 3)\n'hide-and-seek' * 9_000")
            assert answer.error["type"] == "ResultWithheld"
            assert "seek" not in json.dumps(answer.content)
            assert "seek" not in (await host.run(STORED)).text
            await host.run("print('shown' + '!' * 3)\n'shown-' * 9_000")
            assert "shown-shown" in (await host.run(STORED)).text, "control"

            def log() -> str:
                files = contents(tmp_path / "state")
                return "".join(
                    content.decode(errors="replace")
                    for file, content in files.items()
                    if file.parent.name == "sessions"
                )

            await host.until(lambda: "shown!!!" in log())  # the log of the second program has what it printed
            assert "hide!!!" not in log()
            assert "hide-and-seek" * 2 not in log()

    async def test_that_of_a_program_that_is_cancelled_while_it_is_looked_at_is_stored_nowhere(
        self, tmp_path: Path
    ) -> None:
        async with in_memory(configuration(tmp_path, **rails("ShortResults"))) as host:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.run, "'slow-' * 9_000")
                await host.until(LOOKING.is_set)
                tasks.cancel_scope.cancel()
            assert "slow-slow" not in (await host.run(STORED)).text
