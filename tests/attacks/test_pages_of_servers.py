"""The buttons of the page of servers against other pages, other programs, and what servers write.

Each attack has its control: the same form as the person's own page sends it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from codemode_server import cli
from codemode_server.cli.ui import opened
from codemode_server.config import load
from codemode_server.domain.tools import ToolDefinition
from codemode_server.web.ui.server_records import key_of
from tests.behaviour.product import configuration
from tests.web.pages import Pages, pages

SERVERS = {"github": {"command": "/nonexistent/server"}}
DISABLE = f"servers/{key_of('github')}/disable"
REVIEW = f"servers/{key_of('github')}/tools/{key_of('create_issue')}"
pytestmark = pytest.mark.page_attack
HOSTILE = "</ins></li><script>fetch('//evil.example')</script>{{ 7*7 }}\u202e\u200b"
Attack = Callable[..., Awaitable[httpx2.Response]]


async def from_another_origin(site: Pages, path: str, **form: str) -> httpx2.Response:
    data, headers = {"token": await site.token(), **form}, {"Origin": "https://evil.example"}
    return await site.browser.post(f"{site.base}/{path}", data=data, headers=headers)


async def across_sites(site: Pages, path: str, **form: str) -> httpx2.Response:
    data, headers = {"token": await site.token(), **form}, {"Sec-Fetch-Site": "cross-site"}
    return await site.browser.post(f"{site.base}/{path}", data=data, headers=headers)


async def by_another_host(site: Pages, path: str, **form: str) -> httpx2.Response:
    data, headers = {"token": await site.token(), **form}, {"Host": "evil.example"}
    return await site.browser.post(f"{site.base}/{path}", data=data, headers=headers)


async def without_the_token(site: Pages, path: str, **form: str) -> httpx2.Response:
    return await site.browser.post(f"{site.base}/{path}", data=form, headers={"Origin": site.origin})


async def with_a_guessed_token(site: Pages, path: str, **form: str) -> httpx2.Response:
    return await site.post(path, **form, token="guess")


async def without_the_cookie(site: Pages, path: str, **form: str) -> httpx2.Response:
    data = {"token": await site.token(), **form}
    async with httpx2.AsyncClient() as other:
        return await other.post(f"{site.base}/{path}", data=data, headers={"Origin": site.origin})


async def at_a_guessed_path(site: Pages, path: str, **form: str) -> httpx2.Response:
    data = {"token": await site.token(), **form}
    return await site.browser.post(f"{site.origin}/s/guess/{path}", data=data, headers={"Origin": site.origin})


async def by_a_get(site: Pages, path: str, **form: str) -> httpx2.Response:
    return await site.browser.get(f"{site.base}/{path}", params={"token": await site.token(), **form})


ATTACKS = [
    *(from_another_origin, across_sites, by_another_host, without_the_token, with_a_guessed_token),
    *(without_the_cookie, at_a_guessed_path, by_a_get),
]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nobody_else_switches_a_server(tmp_path: Path, attack: Attack) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, _):
        before = (tmp_path / "upstream.yaml").read_text()
        assert (await attack(site, DISABLE)).status_code in (400, 403, 404, 421)
        assert (tmp_path / "upstream.yaml").read_text() == before
        assert (await site.post(DISABLE)).status_code == 303
        assert '"enabled": false' in (tmp_path / "upstream.yaml").read_text(), "control"


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nobody_else_accepts_a_changed_tool(tmp_path: Path, attack: Attack) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
        (digest,) = re.findall(r'name="digest" value="(\w+)"', await site.text(REVIEW))
        assert (await attack(site, f"{REVIEW}/accept", digest=digest)).status_code in (400, 403, 404, 421)
        assert "Review" in await site.text("servers")
        assert (await site.post(f"{REVIEW}/accept", digest=digest)).status_code == 303
        assert "Review" not in await site.text("servers"), "control"


@pytest.mark.parametrize("digest", ["", "0" * 64, "é", "guess"])
async def test_a_form_that_names_no_definition_that_was_shown_accepts_nothing(tmp_path: Path, digest: str) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
        assert (await site.post(f"{REVIEW}/accept", digest=digest)).status_code == 409
        assert "Review" in await site.text("servers")


async def test_the_difference_of_a_tool_is_text(tmp_path: Path) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
        shown = await site.text(REVIEW)
    assert "evil.example" in shown, "control"
    assert "&lt;script&gt;" in shown
    for raw in ("<script>", "\u202e", "\u200b"):
        assert raw not in shown
    assert "\\u202e" in shown


async def test_a_configuration_that_was_changed_since_it_was_trusted_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the current folder may be a repository's, and change with it while the pages are open."""
    planted = tmp_path / "planted"
    monkeypatch.chdir(tmp_path)
    path = configuration(tmp_path, SERVERS)
    assert cli.run(["trust", "--yes"]) == 0
    loaded = load()
    assert loaded.place is not None
    assert loaded.place.is_in_current_folder, "control"
    async with opened(loaded) as address, httpx2.AsyncClient(timeout=30) as browser:
        site = Pages(address, browser)
        await site.enter()
        evil = {"evil": {"command": "touch", "args": [str(planted)]}}
        configuration(tmp_path, evil)
        assert (await site.post("servers/check")).status_code == 303
        refused = await site.get("servers")
        while refused.status_code == 200 and "As checked" not in refused.text:
            refused = await site.get("servers")
    assert not planted.exists()
    assert "has changed since it was trusted" in refused.text
    assert path.exists()
