"""The pages of `codemode-server ui` against other pages, other programs, and what programs and servers write.

Each attack has its control: the same request as the person's own browser makes it.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from codemode_server.domain.approvals import ApprovalId
from codemode_server.domain.calls import Allow
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.tools import ToolDefinition
from codemode_server.records.reports import key_of
from codemode_server.storage.sqlite import FILE_NAME
from tests.behaviour.product import configuration
from tests.cli.pseudo_terminal import without_terminal
from tests.files import contents
from tests.web.hosts_of_a_person import hosts_files
from tests.web.pages import OTHER, OWN, PROGRAM, RULES, TRIAGE, Call, Pages, State, pages, question

pytestmark = pytest.mark.page_attack
HOSTILE = "</code></li><script>fetch('//evil.example')</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\u200b"
FORM = {"answer": "allow", "scope": "call", "host": "cursor"}
PATHS = (
    "executions",
    "executions/x1",
    "executions/x1/calls/1",
    "approvals",
    "approvals/a1",
    "servers",
    "servers/import",
    "permissions",
)
SERVERS = {"github": {"command": "/nonexistent/server"}, "linear": {"url": "http://not-https.example/mcp"}}
GITHUB = f"servers/{key_of('github')}"
LINEAR = f"servers/{key_of('linear')}"
REVIEW = f"{GITHUB}/tools/{key_of('create_issue')}"
REVEAL = "privacy/EMAIL_1"
FORMS = (
    *("approvals/a1", "executions/x1/cancel"),
    *(f"{GITHUB}/disable", f"{REVIEW}/accept", REVEAL),
    *(f"{GITHUB}/test", "servers/add"),
    *(f"{GITHUB}/edit", f"{GITHUB}/rule", f"{GITHUB}/remove", f"{LINEAR}/sign-in", "servers/import"),
)
VALUE = "ann.secret@example.org"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hosts_files(tmp_path / "home", monkeypatch)
    return tmp_path / "home"


async def fill(state: State) -> None:
    await state.execution("x1", PROGRAM, *TRIAGE)
    await state.question(question(), at=time.time())
    await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
    await state.privacy_token(VALUE)


class TestTheEntrance:
    async def test_admits_one_browser_and_gives_it_a_cookie_that_scripts_and_other_paths_do_not_get(
        self, tmp_path: Path
    ) -> None:
        """Cookies are sent to every port of an address, so another server there would get one for `/`."""
        async with pages(tmp_path, is_entered=False) as (site, state), httpx2.AsyncClient() as other:
            await fill(state)
            for path in ("/", "/open/", "/open/guess", "/executions", "/s/", "/s/guess/executions"):
                assert (await site.browser.get(site.origin + path)).status_code == 403, path
            cookie = (await site.browser.get(site.entrance)).headers["set-cookie"]
            again = await other.get(site.entrance)
        assert (again.status_code, "set-cookie" in again.headers, "/s/" in again.text) == (403, False, False)
        name, *attributes = cookie.split("; ")
        assert name.startswith("codemode=")
        assert {"HttpOnly", "SameSite=strict"} <= set(attributes)
        (path,) = [it for it in attributes if it.startswith("Path=")]
        assert len(path) > len("Path=/s/") + 40

    async def test_the_address_of_a_page_without_its_cookie_shows_nothing(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers=SERVERS) as (site, state), httpx2.AsyncClient() as other:
            await fill(state)
            for path in PATHS:
                assert "github" in await site.text(path), "control"
                refused = await other.get(f"{site.base}/{path}")
                assert refused.status_code == 403
                assert "github" not in refused.text

    async def test_address_goes_to_no_output_that_a_model_reads(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "codemode_server", "ui", "--config", str(configuration(tmp_path, {}))]
        done = without_terminal(command)
        assert done.returncode == 2
        assert "needs a person at a terminal" in done.stderr
        assert "127.0.0.1" not in done.stdout + done.stderr


async def sent(site: Pages, path: str, data: dict[str, str], **headers: str) -> httpx2.Response:
    return await site.browser.post(f"{site.base}/{path}", data=data, headers={"Origin": site.origin, **headers})


async def without_the_cookie(site: Pages, path: str, data: dict[str, str]) -> httpx2.Response:
    async with httpx2.AsyncClient() as other:
        return await other.post(f"{site.base}/{path}", data=data, headers={"Origin": site.origin})


async def at_a_guessed_path(site: Pages, path: str, data: dict[str, str]) -> httpx2.Response:
    return await site.browser.post(f"{site.origin}/s/guess/{path}", data=data, headers={"Origin": site.origin})


async def by_another_method(site: Pages, path: str, data: dict[str, str]) -> httpx2.Response:
    headers = {"Origin": site.origin}
    await site.browser.get(f"{site.base}/{path}", params=data, headers=headers)  # may show a page, and does nothing
    return await site.browser.put(f"{site.base}/{path}", params=data, headers=headers)


ATTACKS: dict[str, Callable[[Pages, str, dict[str, str]], Awaitable[httpx2.Response]]] = {
    "another origin": partial(sent, Origin="https://evil.example"),
    "no origin": partial(sent, Origin="null"),
    "another site": lambda site, path, data: sent(site, path, data, **{"Sec-Fetch-Site": "cross-site"}),
    "another host": partial(sent, Host="evil.example"),
    "no token": lambda site, path, data: sent(site, path, {**data, "token": ""}),
    "a guessed token": lambda site, path, data: sent(site, path, {**data, "token": "guess"}),
    "no cookie": without_the_cookie,
    "a guessed path": at_a_guessed_path,
    "another method": by_another_method,
}


async def unchanged(site: Pages, state: State) -> list[bool]:
    """For the buttons of all pages, whether nobody has pressed them."""
    shown = await site.text("servers")
    return [
        not await state.approvals.answered([ApprovalId("a1")]),
        f"{GITHUB}/disable" in shown,
        REVIEW in shown,
        not await times_shown(state),
        "Test at" not in await site.text(GITHUB),
        "planted" not in shown,
        "Not signed in" not in await site.text(LINEAR),
        "deny" not in await anyio.Path(state.folder.parent / "upstream.yaml").read_text(),
    ]


async def proposed(site: Pages, path: str, **form: str) -> str:
    """The path of a change that a person has asked for, and that waits to be saved."""
    answer = await site.post(path, **form)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix(site.base.removeprefix(site.origin) + "/")


async def test_no_form_of_anybody_else_does_anything(tmp_path: Path) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await fill(state)
        (digest,) = re.findall(r'name="digest" value="(\w+)"', await site.text(REVIEW))
        form = {**FORM, "digest": digest, "name": "planted", "line": "/nonexistent/planted"}
        data = {"token": await site.token(), **form}
        forms = (await proposed(site, f"{GITHUB}/rule", answer="deny"), *FORMS)
        for name, attack in ATTACKS.items():
            for path in forms:
                refused = await attack(site, path, data)
                assert refused.status_code in (400, 403, 404, 405, 421), (name, path)
                assert VALUE not in refused.text
            assert await unchanged(site, state) == [True] * 8, name
        answers = [(await site.post(path, **form)).status_code for path in forms]
        assert answers == [303, 303, 409, 303, 303, 200, *[303] * 7], "control; the program has ended"
        assert await unchanged(site, state) == [False] * 8, "control"


async def test_another_host_is_refused(tmp_path: Path) -> None:
    """DNS rebinding: a name of the attacker's that leads to 127.0.0.1."""
    async with pages(tmp_path) as (site, state):
        await fill(state)
        for host in ("evil.example", "localhost", "127.0.0.1.evil.example:80"):
            refused = await site.get("executions", headers={"Host": host})
            assert refused.status_code in (400, 421)
            assert "x1" not in refused.text
        assert "x1" in await site.text("executions"), "control"


async def test_no_page_can_be_framed_cached_or_made_to_load_anything(tmp_path: Path) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await fill(state)
        for path in (*PATHS, REVIEW, "page.css", "live.js", "nothing"):
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


async def test_what_others_wrote_is_text_wherever_it_stands(tmp_path: Path, home: Path) -> None:
    (home / ".cursor/mcp.json").write_text(
        json.dumps({"mcpServers": {"of-cursor": {"command": "x", "args": [HOSTILE]}}})
    )
    text = {HOSTILE: [HOSTILE]}
    call = Call(HOSTILE, 1, 5, arguments=text, result=text, server=HOSTILE, decision=Allow(HOSTILE))
    asked = question(title=HOSTILE, reason=HOSTILE, arguments={HOSTILE: HOSTILE}, lines=(HOSTILE,), done=(HOSTILE,))
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
        code = f'"""{HOSTILE}"""\n{HOSTILE}'
        await state.execution("x1", code, call, status=ExecutionStatus.FAILED, error=HOSTILE, description=HOSTILE)
        state.journal.note_answer(ExecutionId("x1"), f"value:\n{HOSTILE}")
        await state.thread.flush()
        await state.question(asked, at=time.time())
        shown = "".join([await site.text(path) for path in (*PATHS, REVIEW)])
        searched = await site.text("executions?text=%3Cscript%3E&server=%22%3E%3Cscript%3E")
    assert "evil.example" in shown, "control"
    assert "&lt;script&gt;" in shown
    assert "{{ 7*7 }}" in shown, "no text of others is a template"
    assert "\\u202e" in shown
    for hostile in ("<script>", "<img", "\u202e", "\u200b"):
        assert hostile not in shown + searched


async def test_no_address_fills_the_forms_of_servers(tmp_path: Path) -> None:
    """A model can talk a person into opening a link, and a filled form is soon sent."""
    async with pages(tmp_path, servers=SERVERS) as (site, _):
        query = "name=planted&line=curl+evil.example&env=A%3Dplanted&headers=B%3Aplanted&cwd=planted&problem=planted"
        for path in ("servers/add", "servers/import", f"{GITHUB}/edit", GITHUB):
            assert await site.text(f"{path}?{query}&answer=allow&host=planted&given=planted") == await site.text(path)
        wrong = await site.post("servers/add", name="planted")
    assert wrong.status_code == 400
    assert 'value="planted"' in wrong.text, "control: what the person wrote stays"


async def test_a_form_that_names_no_definition_that_was_shown_accepts_nothing(tmp_path: Path) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, state):
        await state.changed_tool(ToolDefinition("create_issue", "Before."), ToolDefinition("create_issue", HOSTILE))
        for digest in ("", "0" * 64, "é", "guess"):
            assert (await site.post(f"{REVIEW}/accept", digest=digest)).status_code == 409
        assert "Review" in await site.text("servers")


async def test_a_change_is_saved_as_it_was_shown_whatever_its_form_says(tmp_path: Path) -> None:
    async with pages(tmp_path, servers=SERVERS) as (site, _):
        change = await proposed(site, f"{GITHUB}/rule", answer="ask")
        assert (await site.post("changes/guess")).status_code == 409
        more = {"answer": "allow", "line": "/nonexistent/planted", "after": "planted", "back": "//evil.example"}
        saved = await site.post(change, **more)
        assert saved.headers["location"].startswith(f"{site.base.removeprefix(site.origin)}/{GITHUB}?")
        assert (await site.post(change)).status_code == 409, "once"
    written = json.loads((tmp_path / "upstream.yaml").read_text())
    rules = written["permissions"]["rules"]
    assert [it for it in rules if it not in RULES["rules"]] == [{"ask": "github", "effect": "read"}]
    assert written["servers"] == SERVERS


async def test_a_change_that_is_too_long_to_be_shown_is_not_offered(tmp_path: Path) -> None:
    """A server lists as many tools as it likes, whose effects a person accepts on its page."""

    def server(number: int) -> dict[str, Any]:
        return {"command": "/nonexistent/server", "args": [f"arg-{it}" for it in range(number)]}

    file = tmp_path / "upstream.yaml"
    async with pages(tmp_path, servers={"few": server(900), "many": server(1_100)}) as (site, _):
        file.write_text(json.dumps(json.loads(file.read_text()), indent=1))
        content = file.read_bytes()
        refused = await site.post(f"servers/{key_of('many')}/remove")
        assert (refused.status_code, "too many to show" in refused.text) == (409, True)
        shown = await site.text(await proposed(site, f"servers/{key_of('few')}/remove"))
    assert shown.count("&#34;arg-") == 900, "control"
    assert file.read_bytes() == content


async def test_what_somebody_else_wrote_meanwhile_stays(tmp_path: Path) -> None:
    """A person saves what a page showed; the file may be another one by then."""
    file = tmp_path / "upstream.yaml"
    async with pages(tmp_path, servers=SERVERS) as (site, _):
        form = {"line": "/nonexistent/other"}
        paths = (f"{GITHUB}/edit", f"{GITHUB}/remove", f"{GITHUB}/rule")
        changes = [await proposed(site, path, answer="allow", **form) for path in paths]
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        for change in changes:
            assert "has changed since the page was shown" in (await site.post(change)).text
        assert file.read_bytes() == content + b"\n"
        assert (await site.post(await proposed(site, f"{GITHUB}/edit", **form))).status_code == 303, "control"
    assert "/nonexistent/other" in file.read_text()


async def times_shown(state: State) -> int:
    return len([row for row in await state.audit.rows(OWN) if row.event.kind == "privacy_shown"])


def files_with_the_value(folder: Path) -> list[str]:
    return [path.name for path, content in contents(folder).items() if VALUE.encode() in content]


async def test_a_token_of_another_principal_is_no_token(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.privacy_token("own@example.org")
        await state.privacy_token("first@example.org", principal=OTHER)
        await state.privacy_token(VALUE, principal=OTHER)
        refused = await site.post("privacy/EMAIL_2")
        never = await site.post("privacy/EMAIL_3")
        assert refused.status_code == never.status_code == 409
        assert refused.text.replace("EMAIL_2", "EMAIL_3") == never.text, "nothing says that there is one"
        assert VALUE not in refused.text
        assert await times_shown(state) == 0
        own = await site.post(REVEAL)
        assert "own@example.org" in own.text, "control"
        assert "first@example.org" not in own.text


async def test_a_value_is_not_shown_if_it_can_not_be_recorded(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.privacy_token(VALUE)
        with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as database:
            database.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(FAIL, 'no'); END")
            refused = await site.post(REVEAL)
            database.execute("DROP TRIGGER full")
        assert refused.status_code == 409
        assert VALUE not in refused.text
        assert VALUE in (await site.post(REVEAL)).text, "control"


async def test_a_value_stays_in_no_address_cache_log_record_or_fetched_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with pages(tmp_path) as (site, state):
        token = await state.privacy_token(VALUE)
        await state.execution("x1", f"send('{token}')", at=time.time(), status=ExecutionStatus.RUNNING)
        assert "live.js" in await site.text("executions/x1"), "control"
        shown = await site.post(REVEAL)
        assert VALUE in shown.text, "control"
        assert shown.headers["cache-control"] == "no-store"
        assert "location" not in shown.headers
        assert "live.js" not in shown.text, "the script would send the request again"
        for path in ("executions", "executions/x1", REVEAL, "approvals"):
            answer = await site.get(path)
            assert VALUE not in answer.text, "what the script fetches"
            assert answer.headers["cache-control"] == "no-store"
    assert VALUE not in caplog.text
    assert files_with_the_value(tmp_path) == []
