"""`codemode-server login` and `logout`, as real processes against a real authorization server."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest

from codemode_server import cli
from codemode_server.records.reports import key_of
from tests.auth import kit
from tests.behaviour.product import in_memory
from tests.web.pages import Pages, pages_of

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture
def login(config: Path) -> Iterator[kit.Login]:
    """The command, which waits for its redirect."""
    running = kit.Login(config, "protected", "--no-browser")
    yield running
    running.kill()


def redirect_of(address: str) -> str:
    """The redirect of a browser that has signed in, not opened yet."""
    with kit.Browser() as browser:
        return browser.redirect(address)


async def test_a_program_calls_a_tool_after_the_person_has_signed_in(config: Path, tmp_path: Path) -> None:
    said = kit.signed_in(config)
    found = kit.stored(tmp_path)
    assert "signed in to 'protected'" in said
    assert not [secret for secret in found.secrets if secret in said]
    for _ in ("one host", "another"):
        async with in_memory(config) as host:
            answer = await host.run("from servers.protected import whoami\nreturn whoami()")
            assert answer.value == "ada"


PROTECTED = f"servers/{key_of('protected')}"


async def opened(site: Pages) -> tuple[str, str]:
    """Start a sign-in on the page of the server; gives the page, and the address to which it leads."""
    assert (await site.post(f"{PROTECTED}/sign-in")).status_code == 303
    page = await site.text(PROTECTED)
    (address,) = re.findall(r'<a class="button main" href="([^"]+)"', page)
    return page, html.unescape(address)


async def until_said(site: Pages, text: str) -> str:
    with anyio.fail_after(kit.PATIENCE_S):
        while text not in (page := await site.text(PROTECTED)):
            await anyio.sleep(0.05)
    return page


async def test_a_person_signs_in_on_the_page_of_the_server(config: Path, tmp_path: Path) -> None:
    async with pages_of(config) as site:
        assert "live.js" not in await site.text(PROTECTED)
        page, address = await opened(site)
        assert f"sends you to <strong>{urlsplit(address).netloc}</strong>" in page
        assert "live.js" in page, "it follows what happens"
        with kit.Browser() as browser:
            assert (await anyio.to_thread.run_sync(browser.sign_in, address)).status_code == 200
        page = await until_said(site, "signed in to &#39;protected&#39;")
    assert address not in page
    assert not [secret for secret in kit.stored(tmp_path).secrets if secret in page]


async def test_on_the_page_the_address_of_the_redirect_can_be_pasted_and_no_other(config: Path, tmp_path: Path) -> None:
    """The state belongs to the last sign-in that was started; one that is started again ends the former one."""
    async with pages_of(config) as site:
        _, former = await opened(site)
        _, address = await opened(site)
        of_former, of_last = [await anyio.to_thread.run_sync(redirect_of, it) for it in (former, address)]
        for wrong in (of_former, "http://127.0.0.1/elsewhere?code=x"):
            assert (await site.post(f"{PROTECTED}/sign-in/pasted", address=wrong)).status_code == 409
        assert kit.store(tmp_path).names() == []
        assert (await site.post(f"{PROTECTED}/sign-in/pasted", address=of_last)).status_code == 303
        await until_said(site, "signed in to &#39;protected&#39;")
        assert (await site.post(f"{PROTECTED}/sign-in/pasted", address=of_last)).status_code == 409, "once"
    assert kit.stored(tmp_path).access_token


def test_the_address_of_the_redirect_can_be_pasted(login: kit.Login) -> None:
    """For a browser on another machine, which can't reach the listener."""
    redirect = redirect_of(login.address())
    login.paste("http://127.0.0.1/elsewhere?code=x")
    login.paste(redirect)
    code, said = login.end()
    assert code == 0, said
    assert "this is not the address of the redirect" in said


def test_a_redirect_with_a_forged_state_is_refused_and_the_right_one_still_counts(login: kit.Login) -> None:
    redirect = redirect_of(login.address())
    state = kit.state_of(redirect)
    forged = httpx2.get(redirect.replace(state, "x" * len(state)))
    assert forged.status_code == 400
    assert "its `state` is another" in forged.text.replace("&#x60;", "`")
    assert httpx2.get(redirect).status_code == 200
    assert login.end()[0] == 0


def test_a_redirect_of_another_issuer_is_refused(login: kit.Login, tmp_path: Path) -> None:
    """A mix-up (RFC 9207): the code of one authorization server must not go to another. The control is above."""
    redirect = redirect_of(login.address())
    issuer = urlencode({"iss": f"http://{urlsplit(kit.iss_of(redirect)).netloc}"})
    assert httpx2.get(redirect.replace(issuer, urlencode({"iss": "http://evil.example"}))).status_code == 200
    code, said = login.end()
    assert code == 2
    assert "iss mismatch" in said
    assert kit.store(tmp_path).names() == []


def test_logout_revokes_the_sign_in_and_forgets_it(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, capsys: pytest.CaptureFixture[str]
) -> None:
    kit.signed_in(config)
    token = kit.stored(tmp_path).access_token
    assert issuing.is_active(token)
    assert cli.run(["logout", "protected", "--config", str(config)]) == 0
    assert "revoked" in capsys.readouterr().out
    assert not issuing.is_active(token)
    assert kit.store(tmp_path).names() == []


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("protectd", "did you mean 'protected'?"),
        ("local", "only servers with a url have a sign-in"),
        ("header", "has an Authorization header or headers_command in upstream.yaml"),
        ("plain", "is not https"),
        ("machine", "has client credentials in upstream.yaml"),
    ],
)
def test_a_server_that_nobody_can_sign_in_to_says_why(
    tmp_path: Path, server: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"grant": "client_credentials", "client_id": "a", "client_secret": "b" * 20, "issuer": "https://i"}
    config = kit.configured(
        tmp_path,
        {
            "protected": {"url": "https://h.example/mcp"},
            "local": {"command": "x"},
            "header": {"url": "https://h.example/mcp", "headers": {"authorization": "Bearer abcdefghijk"}},
            "plain": {"url": "http://h.example/mcp"},
            "machine": {"url": "https://h.example/mcp", "oauth": machine},
        },
    )
    assert cli.run(["login", server, "--config", str(config)]) == 2
    assert reason in capsys.readouterr().err


WATCHING_BROWSER = """#!/bin/sh
page="${1#file://}"
{ echo "$1"; stat -c '%a' "$page" "$(dirname "$page")"; cat "$page"; } > "$SEEN.part"
mv "$SEEN.part" "$SEEN"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the program that stands for a browser is for Linux")
def test_the_command_line_of_the_browser_has_a_private_page_in_place_of_the_address(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users of the machine read command lines; the `state` would let them end the sign-in with their code."""
    program, seen = tmp_path / "browser", tmp_path / "seen"
    program.write_text(WATCHING_BROWSER)
    program.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(program))
    monkeypatch.setenv("SEEN", str(seen))
    running = kit.Login(config, "protected")
    try:
        address = running.address()
        opened, page_mode, folder_mode, page = seen.read_text().split("\n", 3)
        assert (opened[:8], page_mode, folder_mode) == ("file:///", "600", "700")
        assert kit.state_of(address) not in opened
        leads_to = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
        assert leads_to is not None
        assert html.unescape(leads_to[1]) == address
        with kit.Browser() as browser:  # the control: the page leads to the sign-in
            assert browser.sign_in(html.unescape(leads_to[1])).status_code == 200
        code, said = running.end()
    finally:
        running.kill()
    assert code == 0, said
    assert not Path(opened.removeprefix("file://")).parent.exists()
