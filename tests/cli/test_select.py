"""`codemode-server select`: the tools of real upstreams for a task, as a program that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.product import configuration, in_memory, office
from tests.cli.test_commands import command


async def test_it_prints_the_program_that_the_model_gets(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    done = command(tmp_path, f"select 'create an issue' --config {path}")
    assert done.code == 0, done.stderr
    assert "from servers.github import create_issue\n" in done.stdout
    async with in_memory(path) as host:
        answer = await host.call("search_tools", query="create an issue", detail_level="scaffold")
        assert answer.text == done.stdout.rstrip("\n")
        assert (await host.run(answer.text)).content["status"] == "succeeded"
    assert [call["title"] for call in host.reached("create_issue")] == ["…"]


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("zzz", "--json", "[]\n"),
        ("create an issue", "--server slack", 'nothing found for "create an issue" in slack; list_dir'),
    ],
)
def test_without_a_tool_it_says_so_and_the_exit_code_is_1(tmp_path: Path, task: str, options: str, said: str) -> None:
    path = configuration(tmp_path, office(tmp_path, "github", "slack"))
    done = command(tmp_path, f"select '{task}' {options} --config {path}")
    assert (done.code, done.stderr) == (1, "")
    assert done.stdout.startswith(said)
