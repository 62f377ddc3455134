"""The pages of `codemode-server ui` against other pages, other programs, and what programs and servers write.

Each attack has its control: the same request as the person's own browser makes it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx2
import pytest

from codemode_server.domain.approvals import ApprovalId
from codemode_server.domain.calls import Allow
from codemode_server.domain.executions import ExecutionStatus
from tests.behaviour.product import configuration
from tests.cli.pseudo_terminal import without_terminal
from tests.web.pages import PROGRAM, TRIAGE, Call, Pages, State, pages, question

pytestmark = pytest.mark.page_attack
HOSTILE = "</code></li><script>fetch('//evil.example')</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\u200b"
FORM = {"answer": "allow", "scope": "call"}
FORMS = ("approvals/a1", "executions/x1/resume", "executions/x1/replay", "executions/x1/cancel", "servers/check")
PATHS = ("executions", "executions/x1", "executions/x1/calls/1", "approvals", "approvals/a1", "servers", "permissions")


async def fill(state: State) -> None:
    await state.execution("x1", PROGRAM, *TRIAGE)
    await state.question(question(), at=time.time())


async def answered(state: State) -> bool:
    return bool(await state.approvals.answered([ApprovalId("a1")]))


def accepted(path: str) -> int:
    """The status of the answer to a form that was taken: the program has ended, so there is nothing to cancel."""
    return 409 if path.endswith("/cancel") else 303


class TestTheEntrance:
    async def test_admits_one_browser(self, tmp_path: Path) -> None:
        async with pages(tmp_path, is_entered=False) as (site, state), httpx2.AsyncClient() as other:
            await fill(state)
            await site.enter()
            assert "x1" in await site.text("executions"), "control"
            again = await other.get(site.entrance)
            assert again.status_code == 403
            assert site.base.removeprefix(site.origin) not in again.text
            assert "set-cookie" not in again.headers

    @pytest.mark.parametrize("path", ["/", "/open/", "/open/guess", "/executions", "/s/", "/s/guess/executions"])
    async def test_is_needed_to_see_anything(self, tmp_path: Path, path: str) -> None:
        async with pages(tmp_path, is_entered=False) as (site, state):
            await fill(state)
            refused = await site.browser.get(site.origin + path)
            assert refused.status_code == 403
            assert "github" not in refused.text
            await site.enter()
            assert "github" in await site.text("executions"), "a wrong guess does not use it up"

    @pytest.mark.parametrize("path", PATHS)
    async def test_the_address_of_a_page_without_its_cookie_shows_nothing(self, tmp_path: Path, path: str) -> None:
        async with pages(tmp_path) as (site, state), httpx2.AsyncClient() as other:
            await fill(state)
            assert "github" in await site.text(path) or path == "servers", "control"
            refused = await other.get(f"{site.base}/{path}")
            assert refused.status_code == 403
            assert "github" not in refused.text

    async def test_gives_a_cookie_that_scripts_and_other_paths_do_not_get(self, tmp_path: Path) -> None:
        """Cookies are sent to every port of an address, so another server there would get one for `/`."""
        async with pages(tmp_path, is_entered=False) as (site, _):
            cookie = (await site.browser.get(site.entrance)).headers["set-cookie"]
        name, *attributes = cookie.split("; ")
        assert name.startswith("codemode=")
        assert {"HttpOnly", "SameSite=strict"} <= set(attributes)
        (path,) = [it for it in attributes if it.startswith("Path=")]
        assert len(path) > len("Path=/s/") + 40

    async def test_address_goes_to_no_output_that_a_model_reads(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "codemode_server", "ui", "--config", str(configuration(tmp_path, {}))]
        done = without_terminal(command)
        assert done.returncode == 2
        assert "needs a person at a terminal" in done.stderr
        assert "127.0.0.1" not in done.stdout + done.stderr


class TestOtherOrigins:
    @pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1.evil.example:80", ""])
    async def test_another_host_is_refused(self, tmp_path: Path, host: str) -> None:
        """DNS rebinding: a name of the attacker's that leads to 127.0.0.1."""
        async with pages(tmp_path) as (site, state):
            await fill(state)
            refused = await site.get("executions", headers={"Host": host})
            assert refused.status_code in (400, 421)
            assert "x1" not in refused.text
            assert "x1" in await site.text("executions"), "control"

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    async def test_a_form_of_another_origin_does_nothing(self, tmp_path: Path, headers: dict[str, str]) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            form = {"token": await site.token(), **FORM}
            refused = await site.browser.post(f"{site.base}/approvals/a1", data=form, headers=headers)
            assert refused.status_code == 403
            assert not await answered(state)
            own = {"Origin": site.origin, "Sec-Fetch-Site": "same-origin"}
            await site.browser.post(f"{site.base}/approvals/a1", data=form, headers=own)
            assert await answered(state), "control"

    @pytest.mark.parametrize("token", ["", "guess", "é"])
    @pytest.mark.parametrize("path", FORMS)
    async def test_a_form_without_the_token_does_nothing(self, tmp_path: Path, path: str, token: str) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            assert (await site.post(path, **FORM, token=token)).status_code == 403
            assert not await answered(state)
            assert "from this page" not in await site.text("executions/x1")
            assert "Connecting" not in await site.text("servers")
            assert (await site.post(path, **FORM)).status_code == accepted(path), "control"

    @pytest.mark.parametrize("path", FORMS)
    async def test_a_form_without_the_cookie_does_nothing(self, tmp_path: Path, path: str) -> None:
        async with pages(tmp_path) as (site, state), httpx2.AsyncClient() as other:
            await fill(state)
            form = {"token": await site.token(), **FORM}
            refused = await other.post(f"{site.base}/{path}", data=form, headers={"Origin": site.origin})
            assert refused.status_code == 403
            assert not await answered(state)
            assert "from this page" not in await site.text("executions/x1")
            assert "Connecting" not in await site.text("servers")
            assert (await site.post(path, **FORM)).status_code == accepted(path), "control"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
    async def test_only_a_form_changes_something(self, tmp_path: Path, method: str) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            query = {"token": await site.token(), **FORM}
            for path in ("approvals/a1", "executions/x1/replay", "servers/check"):
                await site.browser.request(method, f"{site.base}/{path}", params=query)
            assert not await answered(state)
            assert "from this page" not in await site.text("executions/x1")
            await site.post("approvals/a1", **FORM)
            assert await answered(state), "control"

    @pytest.mark.parametrize("path", [*PATHS, "page.css", "live.js", "nothing"])
    async def test_no_page_can_be_framed_cached_or_made_to_load_anything(self, tmp_path: Path, path: str) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            headers = (await site.get(path)).headers
        policy = dict(it.split(" ", 1) for it in headers["content-security-policy"].split("; "))
        assert policy.pop("default-src") == policy.pop("frame-ancestors") == policy.pop("base-uri") == "'none'"
        assert policy.pop("form-action") == "'self'"
        assert policy == {
            "style-src": f"{site.base}/page.css",
            "script-src": f"{site.base}/live.js",
            "connect-src": f"{site.base}/",
        }
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


class TestWhatOthersWrote:
    async def _shown(self, site: Pages) -> str:
        return "".join([await site.text(path) for path in PATHS])

    async def test_is_text_wherever_it_stands(self, tmp_path: Path) -> None:
        call = Call(
            *(HOSTILE, 1, 5, {HOSTILE: [HOSTILE]}, {HOSTILE: HOSTILE}),
            server=HOSTILE,
            decision=Allow(HOSTILE),
        )
        asked = question(title=HOSTILE, reason=HOSTILE, arguments={HOSTILE: HOSTILE}, lines=(HOSTILE,), done=(HOSTILE,))
        async with pages(tmp_path) as (site, state):
            code = f'"""{HOSTILE}"""\n{HOSTILE}'
            await state.execution("x1", code, call, status=ExecutionStatus.FAILED, error=HOSTILE)
            await state.question(asked, at=time.time())
            shown = await self._shown(site)
            searched = await site.text("executions?text=%3Cscript%3E&server=%22%3E%3Cscript%3E")
        assert "evil.example" in shown, "control"
        assert "&lt;script&gt;" in shown
        assert "{{ 7*7 }}" in shown, "no text of others is a template"
        for page in (shown, searched):
            assert "<script>" not in page
            assert "<img" not in page
            assert "\u202e" not in page
            assert "\u200b" not in page
        assert "\\u202e" in shown

    async def test_can_be_huge(self, tmp_path: Path) -> None:
        wide, long = "<" * 2_000_000, [HOSTILE] * 50_000
        big = Call("list_issues", 1, 5, {"q": wide}, long)
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", "x = 1\n" * 50_000 + f"y = '{wide}'", big)
            call, whole = await site.text("executions/x1/calls/1"), await site.text("executions/x1")
        assert len(call) < 400_000
        assert len(whole) < 400_000
        assert "characters of JSON" in call
        assert "x = 1" in whole, "control"

    async def test_an_execution_can_have_thousands_of_calls(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            calls = [Call("list_issues", n, 5) for n in range(1_200)]
            await state.execution("x1", PROGRAM, *calls)
            first, last = await site.text("executions/x1"), await site.text("executions/x1?after=1000")
        assert [it.count('<li id="call-') for it in (first, last)] == [500, 200]
        assert "More calls" in first
        assert "More calls" not in last


async def test_the_secrets_of_the_configuration_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "ghp_q8W2nR5tY7uI9oP1aS3dF6gH4jK0lZ"
    monkeypatch.setenv("GITHUB_TOKEN", secret)
    servers = {"github": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}, "enabled": False}}
    async with pages(tmp_path, servers=servers) as (site, state):
        call = Call("list_issues", 1, 5, {"q": secret}, {"found": secret})
        await state.execution("x1", f"q = '{secret}'\n{PROGRAM}", call)
        whole, values = await site.text("executions/x1"), await site.text("executions/x1/calls/1")
    assert "***" in whole, "control"
    assert "***" in values, "control"
    assert secret not in whole + values
