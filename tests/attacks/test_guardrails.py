"""Threat: a program spells arguments so that a guardrail misses them, or hopes that it hangs; a repository names a
guardrail of its own.

Rule: what a guardrail can't judge in time does not pass, and only the person's configuration names one. The proof is
the log of the upstream.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.config import load
from codemode_server.guardrails import Block, Change, GuardedCall, GuardedResult, Guardrail, Pass
from tests.behaviour.product import PLAIN, configuration, in_memory

DOMAINS = {"use": "domains", "settings": {"allow": ["good.example"]}}
CREATE = "from codemode import ToolError\nfrom servers.github import create_issue\n"
END = threading.Event()


class Hangs(Guardrail):
    def before_call(self, call: GuardedCall) -> Any:
        END.wait()


class NoZebras(Guardrail):
    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        return Block("it names an animal") if "zebra" in json.dumps(result.value) else Pass()


class NamedZebras(Guardrail):
    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        if result.form == "error" and isinstance(result.value, str) and "zebra" in result.value:
            return Change(result.value.replace("zebra", "horse"), "the animal was replaced")
        return Pass()


FAILING = (
    PLAIN
    + """
server = Server("zoo")
@server.tool()
def feed(animal: str) -> str:
    raise ToolError("could not feed the " + animal[::-1])
server.run()
"""
)
FEED = """
from codemode import ToolError
from servers.zoo import feed
try:
    feed('{}')
except ToolError as error:
    found = [error.kind, str(error)]
found
"""


def zoo(folder: Path, rail: str) -> Path:
    (folder / "zoo.py").write_text(FAILING)
    server = {"command": sys.executable, "args": [str(folder / "zoo.py")]}
    return configuration(folder, {"zoo": server}, guardrails=[{"use": f"{__name__}:{rail}"}])


async def test_a_server_can_not_pass_a_text_by_a_guardrail_as_an_error(tmp_path: Path) -> None:
    async with in_memory(zoo(tmp_path, "NoZebras")) as host:
        answer = await host.run(FEED.format("arbez"))
        assert answer.value[0] == "result_withheld"
        assert "zebra" not in answer.text
        control = (await host.run(FEED.format("esroh"))).value
        assert control[0] == "tool_failed", "the control"
        assert "could not feed the horse" in control[1]


async def test_a_guardrail_can_change_the_text_of_an_error(tmp_path: Path) -> None:
    async with in_memory(zoo(tmp_path, "NamedZebras")) as host:
        answer = await host.run(FEED.format("arbez"))
        assert answer.value[0] == "tool_failed"
        assert "could not feed the horse" in answer.value[1]
        assert "zebra" not in answer.text


SPELLINGS = [
    "https://good.example@evil.example",
    "https:\\\\evil.example",
    "https://evil\uff0eexample",
    "https://good.example?u=https%253A%252F%252Fevil.example",
    "'x' * 2_000_000 + ' https://evil.example'",
    "'%2568' * 200_000",
]
"""As the program has them; the long ones as expressions."""


async def test_no_spelling_of_an_address_slips_past_a_guardrail(tmp_path: Path) -> None:
    texts = ", ".join([*map(repr, SPELLINGS[:4]), *SPELLINGS[4:]])
    code = (
        f"{CREATE}refused = 0\nfor text in [{texts}]:\n"
        "    for body in (text, text + ' '):\n        try:\n            create_issue('a', 'b', 'c', body)\n"
        "        except ToolError as error:\n            refused += error.kind == 'refused'\n"
        "[refused, create_issue('a', 'b', 'c', 'https://good.example/')['number']]"
    )
    async with in_memory(configuration(tmp_path, guardrails=[DOMAINS])) as host:
        assert (await host.run(code)).value == [2 * len(SPELLINGS), 1]
        assert [it["body"] for it in host.reached("create_issue")] == ["https://good.example/"]


async def test_a_guardrail_that_hangs_blocks_its_calls_and_nobody_else(tmp_path: Path) -> None:
    rails = [{"use": f"{__name__}:Hangs", "timeout": 1, "tools": ["github/create_issue"]}]
    END.clear()
    try:
        async with in_memory(configuration(tmp_path, guardrails=rails)) as host:
            async with anyio.create_task_group() as tasks:
                blocked: list[str] = []

                async def create() -> None:
                    blocked.append((await host.run(CREATE + "create_issue('a', 'b', 'c')")).text)

                tasks.start_soon(create)
                with anyio.fail_after(30):
                    other = await host.run("from servers.github import list_issues\nlen(list_issues('web'))")
                assert other.value == 5
            assert "gave no answer within 1 s" in blocked[0]
            assert host.reached("create_issue") == []
    finally:
        END.set()


def test_a_repository_names_no_guardrail_unless_its_folder_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "upstream.yaml").write_text(
        json.dumps({"guardrails": [{"use": "evil:Rail"}], "servers": {"a": {"command": "b"}}})
    )
    assert load(environ={}, cwd=repository).settings.guardrails == ()
    assert load(repository / "upstream.yaml", environ={}, cwd=tmp_path).settings.guardrails, (
        "control: a file that the person gives"
    )
