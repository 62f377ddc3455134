"""The way a model goes, list → search → read → execute, through the real client over stdio to a child process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .product import Host, configuration, in_memory_for_all, office, over_stdio

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_model_finds_reads_and_calls_a_tool_in_one_program(tmp_path: Path, mode: str) -> None:
    """Both eras of the protocol: the initialize handshake, and 2026-07-28 without one."""
    async with over_stdio(configuration(tmp_path, office(tmp_path, "github", "slack")), mode=mode) as host:
        assert (await host.call("list_dir", path="/servers")).text.splitlines() == [
            "/servers · 2 servers, 4 tools",
            "github/  create_issue, list_issues, boom · 3 tools",
            "slack/  get_channel_history: Get the latest messages of a channel. · 1 tool",
        ]
        found = await host.call("search_tools", query="list the issues of a repo")
        assert found.content["tools"][0]["import"] == "from servers.github import list_issues"
        stub = (await host.call("read_tool", path="servers/github/list_issues.py")).text
        assert "def list_issues(repo: str, state: str | None = None) -> list[dict[str, Any]]:" in stub
        answer = await host.run(
            "from servers.github import list_issues\n"
            "issues = list_issues(repo='a/b')\n"
            "{'open': sum(i['state'] == 'open' for i in issues), 'bugs': [i['number'] for i in issues][:2]}"
        )
    assert answer.value == {"open": 3, "bugs": [1, 2]}
    assert answer.content["isolation"] == "wasm"
    assert [(call["tool"], call["status"]) for call in answer.content["calls"]] == [("github.list_issues", "succeeded")]
    assert host.reached("list_issues") == [{"tool": "list_issues", "repo": "a/b", "state": None}]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("conversation")
    servers = {**office(folder, "github"), "dead": {"command": "/no/such/program"}}
    async with in_memory_for_all(configuration(folder, servers)) as opened:
        yield opened


async def test_a_program_that_fails_says_where_and_which_calls_had_happened(host: Host) -> None:
    answer = await host.run(
        "from servers.github import create_issue, boom\n"
        "create_issue(owner='o', repo='r', title='t')\n"
        "boom()\n"
        "create_issue(owner='o', repo='r', title='never')"
    )
    assert answer.result.is_error
    assert answer.error["type"] == "ToolError"
    assert answer.error["line"] == 3
    assert "kaboom: the branch does not exist" in answer.error["message"]
    label, where, *_ = answer.text.splitlines()
    assert label == "error:"
    assert where == "line 3: boom()", "the program's own line and no internals"
    assert [call["status"] for call in answer.content["calls"]] == ["succeeded", "failed"]
    assert [call["title"] for call in host.reached("create_issue")] == ["t"]


async def test_wrong_arguments_are_refused_before_anything_is_sent(host: Host) -> None:
    code = "from servers.github import create_issue\ncreate_issue({{'owner': 'o', 'repo': 'r', 'title': {title}}})"
    answer = await host.run(code.format(title="7"))
    assert "'title' must be a string, not 7" in answer.error["message"]
    assert host.reached() == []
    assert (await host.run(code.format(title="'x'"))).value["number"] == 1, "control"


async def test_an_unknown_name_is_answered_with_the_nearest(host: Host) -> None:
    assert "create_issue" in (await host.run("from servers.github import create_isue")).error["message"]
    assert "github" in (await host.run("from servers.githb import create_issue")).error["message"]
    assert "create_issue" in (await host.call("read_tool", path="servers/github/create_isue.py")).text


async def test_a_host_that_only_speaks_of_one_upstream_is_not_held_up_by_a_dead_one(host: Host) -> None:
    listing = await host.settled()
    assert "dead/" in listing
    assert "unavailable" in listing
    assert (await host.run("from servers.github import list_issues\nlen(list_issues(repo='r'))")).value == 5
