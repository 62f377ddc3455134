"""Signing in on the page of servers, against a real authorization server and a real protected server."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest

from codemode_server.config import load
from codemode_server.web.server_pages import key_of
from codemode_server.web.sign_ins import BegunSignIns
from tests.auth import kit
from tests.behaviour.product import in_memory
from tests.web.chromium import ENTER, Chromium, chromium, why_not
from tests.web.pages import Pages, pages_of
from tests.web.test_ui_in_chromium import barriers, do, focus

pytestmark = pytest.mark.slow

SIGN_IN = f"servers/{key_of('protected')}/sign-in"
LINK = r'<a href="([^"]+)" target="_blank" rel="noopener noreferrer">([^<]*)<strong>([^<]*)</strong>([^<]*)</a>'


async def until(site: Pages, text: str, seen: list[str] | None = None) -> str:
    """The page of the sign-in once it has this text."""
    with anyio.fail_after(kit.PATIENCE_S):
        while text not in (shown := await site.text(SIGN_IN)):
            await anyio.sleep(0.02)
    if seen is not None:
        seen.append(shown)
    return shown


async def begun(site: Pages, seen: list[str] | None = None) -> str:
    """The address of a sign-in that was begun by the button."""
    assert (await site.post(SIGN_IN)).status_code == 303
    return html.unescape(re.findall(LINK, await until(site, "Open this address", seen))[0][0])


async def redirect_of(address: str) -> str:
    with kit.Browser() as browser:
        return await anyio.to_thread.run_sync(browser.redirect, address)


async def open_address(address: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as browser:
        return await browser.get(address)


async def test_a_program_calls_a_tool_after_the_person_has_signed_in_on_the_page(config: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    async with pages_of(config) as site:
        assert f"/{SIGN_IN}" in await site.text("servers")
        redirect = await redirect_of(await begun(site, seen))
        assert (await open_address(redirect)).status_code == 200
        await until(site, "signed in to &#39;protected&#39;", seen)
        seen.append(await site.text("servers"))
        async with in_memory(config) as host:
            answer = await host.run("from servers.protected import whoami\nreturn whoami()")
            assert answer.value == "ada"
    found = kit.stored(tmp_path)
    code = dict(it.split("=", 1) for it in urlsplit(redirect).query.split("&"))["code"]
    database = b"".join(it.read_bytes() for it in (tmp_path / "state").glob("codemode.db*"))
    for secret in (*found.secrets, code):
        assert not [page for page in seen if secret in page]
        assert secret.encode() not in database
    assert kit.state_of(redirect) not in "".join(seen[1:]), "the address is gone with the sign-in"


@pytest.mark.page_attack
async def test_a_redirect_with_a_forged_state_does_not_sign_in(config: Path, tmp_path: Path) -> None:
    async with pages_of(config) as site:
        redirect = await redirect_of(await begun(site))
        state = kit.state_of(redirect)
        assert (await open_address(redirect.replace(state, "x" * len(state)))).status_code == 400
        assert "Open this address" in await site.text(SIGN_IN)
        assert kit.store(tmp_path).names() == []
        await open_address(redirect)
        await until(site, "signed in to")


async def test_a_sign_in_that_is_cancelled_stores_nothing(config: Path, tmp_path: Path) -> None:
    async with pages_of(config) as site:
        redirect = await redirect_of(await begun(site))
        assert (await site.post(f"{SIGN_IN}/cancel")).status_code == 303
        assert "it was cancelled; nothing was stored" in await until(site, "Not signed in:")
        with pytest.raises(httpx2.ConnectError):
            await open_address(redirect)
    assert kit.store(tmp_path).names() == []


async def test_a_sign_in_is_begun_once_for_a_server(config: Path) -> None:
    async with pages_of(config) as site:
        address = await begun(site)
        assert await begun(site) == address


async def test_waiting_for_the_person_has_an_end(config: Path) -> None:
    async with anyio.create_task_group() as tasks:
        sign_ins = BegunSignIns(tasks, lambda: load(config), lambda _: None, wait_s=0.5)
        sign_ins.begin("protected")
    state = sign_ins.state("protected")
    assert state is not None
    assert state.text == "nobody signed in within 0.5 s; nothing was stored; start the sign-in again"
    assert state.address == ("", "", "")


@asynccontextmanager
async def in_browser(config: Path) -> AsyncIterator[tuple[Chromium, Pages]]:
    if reason := why_not():
        pytest.skip(reason)
    async with pages_of(config, is_entered=False) as site:
        browsing = chromium()
        browser = await do(browsing.__enter__)
        try:
            await do(browser.open, site.entrance)
            await do(browser.until, "h1", "Executions")
            site.base = (await do(lambda: browser.address)).rpartition("/executions")[0]
            yield browser, site
        finally:
            await do(browsing.__exit__, None, None, None)


@pytest.mark.slow
async def test_in_chromium_the_page_follows_the_sign_in_although_its_link_has_the_focus(config: Path) -> None:
    async with in_browser(config) as (browser, site):
        await do(browser.open, f"{site.base}/servers")
        await focus(browser, "Sign in to protected")
        await do(browser.type, ENTER)
        await do(browser.until, "main", "Open this address")
        await focus(browser, "/auth?")
        address = await do(browser.run, "return document.activeElement.href")
        await open_address(await redirect_of(address))
        await do(browser.until, "main", "signed in to 'protected'")
        assert await do(browser.run, "return document.activeElement.id") == "sign-in"
        assert [it for it in await do(browser.console) if "favicon" not in it] == []


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_that_keeps_people_out_and_the_page_fits_on_a_phone(config: Path, theme: str) -> None:
    async with in_browser(config) as (browser, site):
        await do(browser.use_theme, theme)
        for path, text in (("servers", "Servers"), (SIGN_IN, "Sign in to protected")):
            await do(browser.open, f"{site.base}/{path}")
            await do(browser.resize, 360, 740)
            await do(browser.until, "h1", text)
            assert await barriers(browser) == []
        await do(browser.click, "main form button")
        await do(browser.until, "main", "Open this address")
        assert await barriers(browser) == []
        assert await do(browser.run, "return document.documentElement.scrollWidth") <= 360
