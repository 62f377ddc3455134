"""What changes while the product runs reaches the catalog, the stubs and the search without a restart: an edit of
upstream.yaml, an upstream that changes its tools, one that dies and comes back, tools known from the last run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types

from codemode_server.app import App
from codemode_server.config.live import local_principal
from codemode_server.features.privacy.settings import PrivacySettings
from tests import fork_server

from .product import PLAIN, UPSTREAMS, Host, configuration, in_memory, office, opened

pytestmark = pytest.mark.slow

LIST = "from servers.github import list_issues\nlen(list_issues(repo={0!r}))"

PAINT = "from servers.painter import paint\npaint()"
PAINTER = (
    PLAIN
    + """
import os
server = Server("painter")

@server.tool(description="Paint a fence.")
def paint() -> str:
    return "painted"

@server.tool(description="Die.")
def die() -> str:
    os._exit(1)

server.run()
"""
)


def painter(folder: Path) -> Path:
    (folder / "painter.py").write_text(PAINTER)
    return configuration(folder, {"painter": fork_server.small_upstream(folder / "painter.py")})


async def found(host: Host, query: str) -> list[str]:
    return [tool["name"] for tool in (await host.call("search_tools", query=query)).content["tools"]]


async def until_found(host: Host, query: str, name: str) -> None:
    async def is_found() -> bool:
        return name in await found(host, query)

    await host.until(is_found)


def file_of(folder: Path, payloads: str = "shapes", **sections: Any) -> Path:
    state = {"dir": str(folder / "state"), "payloads": payloads}
    return configuration(folder, office(folder, "github"), **{"state": state, **sections})


async def taken_over(app: App) -> None:
    with anyio.fail_after(60):
        await app.config.wait_newer(0)


def on_disk(folder: Path, word: str) -> bool:
    return any(word.encode() in file.read_bytes() for file in (folder / "state").glob("*.db*"))


async def test_edited_permissions_hold_for_the_next_call(tmp_path: Path) -> None:
    """And so does how much of it is recorded."""
    create = "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='t')['number']"
    async with opened(file_of(tmp_path, "all"), watch=True) as (app, host):
        assert (await host.run(LIST.format("needle-before"))).value == 5
        assert (await host.run(create)).value == 1
        await host.until(lambda: on_disk(tmp_path, "needle-before"))
        file_of(tmp_path, "none", permissions={"rules": [{"deny": "github/create_issue"}]})
        await taken_over(app)
        assert "deny: github/create_issue" in (await host.run(create)).error["message"]
        assert len(host.reached("create_issue")) == 1
        assert (await host.run(LIST.format("needle-after"))).value == 5
    assert not on_disk(tmp_path, "needle-after")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_edited_permissions_change_the_hints_of_programs_and_the_host_is_notified(
    tmp_path: Path, mode: str
) -> None:
    notified: list[Any] = []

    async def note(message: Any) -> None:
        notified.append(message)

    async def hints(host: Host) -> tuple[bool | None, bool | None]:
        tool = (await host.client.list_tools(cache_mode="bypass")).tools[-1]
        assert tool.annotations is not None
        return tool.annotations.read_only_hint, tool.annotations.destructive_hint

    async with opened(file_of(tmp_path), watch=True, mode=mode, message_handler=note) as (app, host):
        assert await hints(host) == (False, True)
        notified.clear()
        file_of(tmp_path, permissions={"preset": "read-only"})
        await taken_over(app)
        assert await hints(host) == (True, False)
        if mode == "legacy":  # a host of the newer protocol subscribes
            await host.until(lambda: any(isinstance(it, types.ToolListChangedNotification) for it in notified))


async def test_an_edit_that_cannot_be_used_leaves_the_old_settings_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that would protect nothing. A server that the next edit adds is there without a restart."""
    path = file_of(tmp_path, privacy={"servers": {"github": "tokens"}})
    async with opened(path, watch=True) as (app, host):
        with caplog.at_level(logging.WARNING):
            file_of(tmp_path, privacy={"servers": {"githb": "tokens"}}, limits={"calls": 3})
            await host.until(lambda: "the edited configuration is not used" in caplog.text)
            assert PrivacySettings.of(app.config.settings).servers == {"github": "tokens"}
            assert "privacy.servers.githb: protects nothing" in caplog.text
            warned = {"servers": {"github": "tokens", "gi?": "block"}}
            configuration(tmp_path, office(tmp_path, "github", "slack"), privacy=warned, limits={"calls": 3})
            await taken_over(app)
        assert app.config.settings.limits.calls == 3, "control"
        assert 'privacy.servers."gi?": matches no server' in caplog.text, "what an edit brings is warned of too"
        await until_found(host, "channel history", "get_channel_history")
        code = "from servers.slack import get_channel_history\nlen(get_channel_history(channel='C1'))"
        assert (await host.run(code)).value == 2


FIRST, SECOND = "tok-first-5f2c9e7a1b", "tok-second-Z7kQ9xw41L"


def with_token(folder: Path, token: str) -> Path:
    servers = office(folder, "github")
    servers["github"]["env"]["GITHUB_TOKEN"] = token
    return configuration(folder, servers)


async def test_a_secret_that_an_edit_replaces_stays_masked_beside_the_new_one(tmp_path: Path) -> None:
    """A server that had it may still answer with it."""
    code = f"[{FIRST!r}, {SECOND!r}]"
    async with opened(with_token(tmp_path, FIRST), watch=True) as (app, host):
        assert (await host.run(code)).value == ["***", SECOND], "the control"
        with_token(tmp_path, SECOND)
        await taken_over(app)
        assert (await host.run(code)).value == ["***", "***"]


async def test_the_log_names_the_edited_settings_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(file_of(tmp_path), watch=True) as (app, _):
        with caplog.at_level(logging.WARNING):
            edited = {"dir": str(tmp_path / "state"), "payloads": "none"}
            file_of(tmp_path, state=edited, principal="another", sandbox={"warm": 2}, limits={"calls": 3})
            await taken_over(app)
        assert app.config.settings.limits.calls == 3
        assert local_principal(app.config.settings).principal_id == "default", "whose workspace is open already"
    lines = [record.message for record in caplog.records if "next start" in record.message]
    assert lines == ["sandbox.warm, principal: what was edited here is taken over at the next start"]


async def test_a_tool_that_an_upstream_adds_is_found_read_and_called(tmp_path: Path) -> None:
    (tmp_path / "listing.json").write_text('{"read_mail": null}')
    paths = str(tmp_path / "calls.log"), str(tmp_path / "listing.json")
    server = fork_server.small_upstream(UPSTREAMS / "changing.py", *paths)
    async with in_memory(configuration(tmp_path, {"post": server})) as host:
        assert "read_mail" not in await found(host, "read the mail")
        await host.run("from servers.post import change\nchange(listing='{}')")
        await until_found(host, "read the mail", "read_mail")
        assert "def read_mail(" in (await host.call("read_tool", path="servers/post/read_mail.py")).text
        assert (await host.run("from servers.post import read_mail\nread_mail()")).value == "no mail"


async def test_an_upstream_that_dies_in_a_call_is_back_for_the_next(tmp_path: Path) -> None:
    async with in_memory(painter(tmp_path)) as host:
        answer = await host.run("from servers.painter import die\ndie()")
        assert answer.content["calls"][0]["status"] == "unknown"
        assert "paint" in await found(host, "paint a fence"), "its tools stay listed"

        async def is_back() -> bool:
            return (await host.run(PAINT)).result.is_error is False

        await host.until(is_back)


async def test_tools_of_the_last_run_are_there_before_their_upstream_is(tmp_path: Path) -> None:
    """And are marked as unavailable when it does not come up."""
    path = painter(tmp_path)
    async with in_memory(path) as host:
        assert "paint" in await found(host, "paint a fence")
    (tmp_path / "painter.py").write_text("import sys; sys.exit('the licence has run out')")
    async with in_memory(path) as host:
        answer = await host.call("search_tools", query="paint a fence")
        assert answer.content["tools"][0]["name"] == "paint"
        assert "unavailable" in json.dumps(answer.content["tools"][0])
        assert "the licence has run out" in (await host.run(PAINT)).error["message"]
