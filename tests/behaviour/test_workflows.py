"""Workflows in the product: run and checked by the command line, imported by programs, seen by the model. Upstreams,
sandbox and hosts are real; a person answers the questions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from codemode_server.cli import run as main
from tests.cli.pseudo_terminal import at_terminal

from .person import Person
from .product import Host, configuration, in_memory, office

pytestmark = pytest.mark.slow

TRIAGE = """\
description: Copy the open issues of a repository.
inputs:
  repo: {type: text, description: Name of the repository}
  most: {type: integer, default: 2, min: 1, max: 5}
steps:
  - id: issues
    call: github.list_issues
    with: {repo: "${inputs.repo}", state: open}
  - each: steps.issues[:inputs.most]
    as: issue
    id: made
    collect: "${steps.copy.number}"
    do:
      - id: copy
        call: github.create_issue
        with: {owner: acme, repo: "${inputs.repo}", title: "Copy of ${issue.number}: ${issue.title}"}
result: {made: "${steps.made}", of: "${len(steps.issues)}"}
"""
ONBOARDING = """\
description: Register a customer by a form.
inputs: {account: text}
steps:
  - id: form
    ask: "Who is the new customer of ${inputs.account}?"
    fields:
      name: {type: text, title: Full name, min: 3}
      email: {type: text, format: email}
      employees: {type: integer, min: 1, required: false}
      plan: {type: choice, options: [free, pro], default: free}
  - if: steps.form.plan == "pro" and (steps.form.employees or 0) < 2
    then:
      - fail: "the plan pro is for two employees or more"
  - id: record
    call: salesforce.update_record
    with:
      objectType: Account
      recordId: "${inputs.account}"
      data: {Name: "${steps.form.name}", Email: "${steps.form.email}", Size: "${steps.form.employees}"}
result: "${steps.record.success}"
"""
RECOVERY = """\
steps:
  - id: failed
    call: github.boom
    retry: {times: 3, wait: 0, on: [tool_failed]}
    on_error:
      - id: noted
        call: github.create_issue
        with: {owner: acme, repo: ops, title: "${error.kind}", body: "${error.message}"}
  - id: skipped
    call: github.boom
    on_error: continue
  - id: count
    set: 0
  - while: steps.count < 3
    do:
      - id: count
        set: "${steps.count + 1}"
result: ["${steps.failed}", "${steps.skipped}", "${steps.noted.number}", "${steps.count}"]
"""


WITH_A_SKILL = """\
inputs: {repo: text}
steps:
  - id: titles
    skill: open_titles
    with: {repo: "${inputs.repo}", most: 2}
  - id: made
    call: github.create_issue
    with: {owner: acme, repo: "${inputs.repo}", title: "${steps.titles[1]}"}
result: {titles: "${steps.titles}", made: "${steps.made.number}"}
"""
OPEN_TITLES = """\
from servers.github import list_issues

async def open_titles(repo: str, most: int) -> list:
    return [it["title"] for it in await list_issues(repo=repo, state="open")][:most]
"""


ADA = {"name": "Ada Lovelace", "email": "ada@example.com", "employees": 3, "plan": "pro"}
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


def product(folder: Path, protocol: str = "auto", **workflows: str) -> Path:
    (folder / "workflows").mkdir()
    for name, text in workflows.items():
        (folder / "workflows" / f"{name}.yaml").write_text(text)
    names = ("github", "salesforce")
    return configuration(folder, {**office(folder, *names), "person": {"questions": True, "protocol": protocol}})


class Command:
    """The command line, in this process."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path, self._capsys = path, capsys

    async def __call__(self, *line: str) -> tuple[int, str, str]:
        code = await anyio.to_thread.run_sync(main, ["workflow", *line, "--config", str(self._path)])
        out = self._capsys.readouterr()
        return code, out.out, out.err


class TestPrograms:
    async def test_a_workflow_is_found_listed_read_imported_and_called_like_a_function(self, tmp_path: Path) -> None:
        async with in_memory(product(tmp_path, triage=TRIAGE)) as host:
            assert "workflows" in (await host.call("list_dir", path="/")).text
            listed = (await host.call("list_dir", path="/workflows")).text
            assert "triage.yaml" in listed
            assert "Copy the open issues of a repository." in listed
            found = (await host.call("search_tools", query="copy the open issues of a repository")).text
            assert "from workflows.triage import triage" in found
            text = (await host.call("read_tool", path="/workflows/triage.yaml")).text
            assert "triage(repo: str, most: int" in text
            assert "call: github.list_issues" in text
            answer = await host.run("from workflows import triage\ntriage('web', most=3)")
            assert answer.value == {"made": [1, 2, 3], "of": 5}
            assert host.reached("create_issue")[0]["title"] == "Copy of 1: Issue 1 of web"

    async def test_its_inputs_are_checked(self, tmp_path: Path) -> None:
        async with in_memory(product(tmp_path, triage=TRIAGE)) as host:
            for call, message in (
                ("triage('web', most=0)", "the input 'most' must be at least 1"),
                ("triage(3)", "the input 'repo' must be of the type text"),
            ):
                assert message in (await host.run(f"from workflows import triage\n{call}")).text
            assert host.reached() == []

    async def test_errors_are_retried_and_handled(self, tmp_path: Path) -> None:
        async with in_memory(product(tmp_path, recovery=RECOVERY)) as host:
            answer = await host.run("from workflows import recovery\nrecovery()")
            assert answer.value == [None, None, 1, 3]
            assert len(host.reached("boom")) == 4
            assert host.reached("create_issue")[0]["title"] == "tool_failed"

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_a_skill_is_a_step_with_its_own_calls_and_its_result(self, tmp_path: Path, *, is_async: bool) -> None:
        """Regression: of a skill that is an `async def`, later steps got a coroutine."""
        skill = OPEN_TITLES if is_async else OPEN_TITLES.replace("async ", "").replace("await ", "")
        path = product(tmp_path, titles=WITH_A_SKILL)
        (tmp_path / "skills").mkdir()
        (tmp_path / "skills" / "open_titles.py").write_text(skill)
        async with in_memory(path) as host:
            answer = await host.run("from workflows import titles\ntitles('web')")
            assert answer.value == {"titles": ["Issue 1 of web", "Issue 2 of web"], "made": 1}
            assert [it["tool"] for it in host.reached()] == ["list_issues", "create_issue"]
            assert host.reached("create_issue")[0]["title"] == "Issue 2 of web"


class TestQuestions:
    RUN = "from workflows import onboarding\nonboarding('A-1')"

    async def answered(self, folder: Path, era: str, person: Person) -> tuple[Any, Host]:
        async with in_memory(
            product(folder, era, onboarding=ONBOARDING), mode=era, elicitation_callback=person.elicit
        ) as host:
            return await host.run(self.RUN), host

    @BOTH_ERAS
    async def test_the_form_is_shown_and_its_answers_are_used(self, tmp_path: Path, era: str) -> None:
        person = Person(content=ADA)
        answer, host = await self.answered(tmp_path, era, person)
        assert answer.value is True
        assert host.reached("update_record")[0]["data"] == {
            "Name": "Ada Lovelace",
            "Email": "ada@example.com",
            "Size": 3,
        }
        form = person.seen[0]
        assert "Who is the new customer of A-1?" in form.message
        assert "'person'" in form.message, "the user sees who asks"
        schema = form.model_dump(by_alias=True)["requestedSchema"]
        assert schema["required"] == ["name", "email", "plan"]
        assert schema["properties"]["name"] == {"type": "string", "title": "Full name", "minLength": 3}
        assert schema["properties"]["plan"]["enum"] == ["free", "pro"]

    @BOTH_ERAS
    async def test_one_who_declines_ends_the_workflow_and_nothing_is_called(self, tmp_path: Path, era: str) -> None:
        answer, host = await self.answered(tmp_path, era, Person(action="decline"))
        assert answer.error["type"] == "WorkflowStopped"
        assert "did not answer the question (decline)" in answer.text
        assert host.reached() == []

    @BOTH_ERAS
    async def test_answers_that_are_not_valid_are_asked_for_again(self, tmp_path: Path, era: str) -> None:
        person = Person(contents=[{**ADA, "email": "nowhere"}, {**ADA, "plan": "gold"}, ADA])
        answer, host = await self.answered(tmp_path, era, person)
        assert answer.value is True
        assert "is not a 'email'" in person.seen[1].message
        assert "is not one of ['free', 'pro']" in person.seen[2].message
        assert len(host.reached("update_record")) == 1

    async def test_a_resumed_program_does_not_ask_twice(self, tmp_path: Path) -> None:
        person = Person(content=ADA)
        path = product(tmp_path, onboarding=ONBOARDING)
        async with in_memory(path, elicitation_callback=person.elicit) as host:
            failed = await host.run(f"{self.RUN}\nimport json\njson.loads('{{')")
            again = await host.call("execute_code", resume=failed.content["execution_id"])
            assert again.content["status"] == "failed"
            assert len(person.seen) == 1
            assert len(host.reached("update_record")) == 1


class TestTheCommand:
    async def test_lists_checks_and_runs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        command = Command(product(tmp_path, triage=TRIAGE), capsys)
        code, out, _ = await command("list")
        assert (code, out.splitlines()[1].strip()) == (0, "Copy the open issues of a repository.")
        assert await command("check") == (0, "triage: ok\n", "")
        code, out, _ = await command("run", "triage", "--input", "repo=web", "--input", "most=1", "--json")
        assert (code, json.loads(out)["value"]) == (0, {"made": [1], "of": 5})

    async def test_checks_against_the_tools_with_lines_of_the_file(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        wrong = TRIAGE.replace("list_issues", "list_isues").replace("owner: acme, ", "")
        command = Command(product(tmp_path, wrong=wrong, unread="steps:\n  - calls: a.b\n"), capsys)
        code, out, _ = await command("check")
        assert code == 1
        assert "workflows/unread.yaml:2: steps[0]: a step has exactly one of" in out
        assert 'workflows/wrong.yaml:6: no tool "list_isues" in servers.github; nearest: list_issues' in out
        code, out, err = await command("run", "wrong", "--input", "repo=web")
        assert (code, out) == (1, "not run\n")
        assert "list_isues" in err


def test_the_person_at_a_terminal_answers_its_questions(tmp_path: Path) -> None:
    path = product(tmp_path, onboarding=ONBOARDING)
    line = ["workflow", "run", "onboarding", "--input", "account=A-1", "--config", str(path)]
    answers = ("> ", "Ada Lovelace"), ("> ", "ada@example.com"), ("> ", ""), ("> ", "2")
    shown = at_terminal([sys.executable, "-m", "codemode_server", *line], *answers)
    assert "Who is the new customer of A-1?" in shown
    assert "an empty line gives the default in brackets" in shown
    assert "the plan pro is for two employees or more" in shown
