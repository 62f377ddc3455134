"""A configured server that can't be used is named where a model looks for it, with the reason: in searches and imports.
Beside a server that works one can't be started, one is disabled, one has a mistake in its entry, and one offers no
tools. Of servers that a program used its answer says which was restarted, and which errors came as normal results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import fork_server
from tests.attacks.test_flows import SERVER

from .product import configuration, in_memory, office

WHY = "can't be started: there is no program 'no-such-program' on the PATH; install it or give its full path"
DOWN = f"unavailable: calls fail until it is back ({WHY})"
DISABLED = "disabled in upstream.yaml: calls fail"


def servers(folder: Path) -> dict[str, Any]:
    return {
        **office(folder, "github"),
        "slack": office(folder, "slack")["slack"] | {"tools": {"exclude": ["*"]}},
        "linear": {"command": "no-such-program"},
        "jira-cloud": {"command": "x", "enabled": False, "description": "Sprints and tickets of the team"},
        "asana": {"command": "x", "env": {"TOKEN": "${ASANA_TOKEN_THAT_IS_NOT_SET}"}},
    }


async def test_an_unavailable_server_is_named_with_the_reason_by_searches_that_mean_it_and_no_others(
    tmp_path: Path,
) -> None:
    async with in_memory(configuration(tmp_path, servers(tmp_path))) as host:

        async def first_line(query: str, **arguments: Any) -> str:
            return (await host.call("search_tools", query=query, **arguments)).text.split("\n")[0]

        assert await first_line("linear") == f"servers.linear is configured but {DOWN}"
        assert await first_line("create a ticket in Linear") == f"servers.linear is configured but {DOWN}"
        assert await first_line("sprint tickets") == f"servers.jira_cloud is configured but {DISABLED}"
        asana = await first_line("asana")
        assert asana.startswith("servers.asana is configured but disabled because its configuration is invalid (")
        assert "ASANA_TOKEN_THAT_IS_NOT_SET is not set" in asana
        assert await first_line("messages in slack") == "servers.slack is configured but offers no tools"
        assert await first_line("x", server="linear") == f'nothing found for "x" in linear: it is {DOWN}'

        assert "configured but" not in await first_line("list the issues of a repository")
        assert "configured but" not in await first_line("weather of the mcp server")
        weather = await host.call("search_tools", query="weather forecast")
        assert weather.text.startswith('nothing found for "weather forecast"; servers: ')
        assert f"unavailable: linear ({WHY}); tell the user: codemode-server test linear" in weather.text


async def test_a_program_that_imports_from_an_unavailable_server_is_refused_with_the_reason_before_its_first_call(
    tmp_path: Path,
) -> None:
    async with in_memory(configuration(tmp_path, servers(tmp_path))) as host:
        for code, reason in (
            ("from servers.linear import create_issue", f"servers.linear is {DOWN}"),
            (
                "import servers\nservers.jira_cloud.sprints()",
                "servers.jira_cloud is disabled in upstream.yaml; the user can enable it",
            ),
            (
                "from servers.asana import tasks",
                "servers.asana is disabled because its configuration is invalid",
            ),
        ):
            answer = await host.run(f"from servers.github import create_issue\ncreate_issue('o', 'r', 'x')\n{code}")
            assert "CheckFailed: not run:" in answer.text
            assert reason in answer.text
        assert host.reached() == []


def hotel(folder: Path) -> Path:
    server = fork_server.small_upstream(SERVER, str(folder / "hotel.log"))
    return configuration(folder, {"hotel": server})


RESTARTED = "[note: hotel was restarted since its last call; its state may be gone]"
LIST = "from servers.hotel import read\nread()"


async def test_a_restart_between_two_calls_is_mentioned_once_by_the_program_that_next_uses_the_server(
    tmp_path: Path,
) -> None:
    async with in_memory(hotel(tmp_path)) as host:
        first = await host.run("from servers.hotel import leave\nleave()")
        unrelated = await host.run("1 + 1")
        after, later = await host.run(LIST), await host.run(LIST)
    assert "restarted" not in first.text + unrelated.text + later.text
    assert after.text.count(RESTARTED) == 1
    assert "the data" in after.text


async def test_an_error_that_comes_as_a_normal_result_is_noted_once_and_teaches_no_type(tmp_path: Path) -> None:
    async with in_memory(hotel(tmp_path)) as host:
        texts = "[{'text': f'Database error: no such table: t{n}'} for n in range(3)]"
        code = f"from servers.hotel import echo\nlen(echo.map({texts}))"
        noted = (await host.run(code)).text
        assert noted.count("[warning: ") == 1
        assert "[warning: calls 1, 2, 3 did NOT succeed: hotel.echo returned its error as a result: " in noted
        assert """; test: str(result).startswith('Database error')]""" in noted
        assert "type unknown until called" in (await host.call("read_tool", path="hotel.echo")).text

        text = "A report on errors.\\n\\nError: is how messages begin."
        plain = (await host.run(f"from servers.hotel import echo\necho(text='{text}')")).text
        assert "Error: is how messages begin." in plain
        assert "[note" not in plain
        assert "-> str" in (await host.call("read_tool", path="hotel.echo")).text
