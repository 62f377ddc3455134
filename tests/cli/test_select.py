"""`codemode-server select`: the tools of real upstreams for a task, as a program that runs."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_as_json_it_has_the_tools_with_the_program(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    done = command(tmp_path, f"select 'create an issue' --json --config {path}")
    first = json.loads(done.stdout)[0]
    assert first["name"] == "create_issue"
    assert first["program"].startswith("# Task: create an issue\n")


def test_without_a_tool_the_exit_code_is_1(tmp_path: Path) -> None:
    assert command(tmp_path, f"select 'create an issue' --config {configuration(tmp_path, {})}").code == 1
