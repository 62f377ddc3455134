"""Requests to the pages of `codemode-server ui` that none of its pages sends: hostile paths, headers and forms.

They are sent as raw bytes, since a client mends some of them, and with the cookie and the token of the person's
browser, so that only the request itself is in question. Each attack has its control: the request of a page.
"""

from __future__ import annotations

import itertools
import re
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from codemode_server import http_connections
from codemode_server.domain.approvals import ApprovalId
from tests.web.pages import PROGRAM, TRIAGE, Pages, State, pages, question

pytestmark = pytest.mark.page_attack
SECRET = "content of a file that no page shows"
UP = ("..", "%2e%2e", "%252e%252e", "..%00", "..%c0%af", "..%5c")
PLACES = ("", "page.css/", "executions/", "approvals/")
TARGETS = ("state/page-secret", "page-secret", "templates/base.html")
FORM = "answer=allow&scope=call"


async def sent(site: Pages, head: str, body: bytes = b"") -> tuple[int, str]:
    """The status and the whole answer to a request; `head` is its first line and its headers but those below."""
    cookie = "; ".join(f"{name}={value}" for name, value in site.browser.cookies.items())
    host = site.origin.removeprefix("http://")
    lines = [*head.split("\n"), f"Host: {host}", f"Cookie: {cookie}", "Connection: close"]
    if body:
        lines += [f"Content-Length: {len(body)}"]
    text = await raw(host, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return int(text.split(" ", 2)[1]), text


def path_of(site: Pages) -> str:
    return site.base.removeprefix(site.origin)


async def fill(state: State) -> None:
    await state.execution("x1", PROGRAM, *TRIAGE)
    await state.question(question(), at=time.time())
    for name in (state.folder / "page-secret", state.folder.parent / "page-secret"):
        name.write_text(SECRET)


async def is_answered(state: State) -> bool:
    return bool(await state.approvals.answered([ApprovalId("a1")]))


class TestPaths:
    async def test_none_leads_to_a_file(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            for up, place, target, slash in itertools.product(UP, PLACES, TARGETS, ("/", "%2f")):
                path = f"{path_of(site)}/{place}{(up + slash) * 3}{target}"
                status, answer = await sent(site, f"GET {path} HTTP/1.1")
                assert status in (400, 403, 404), path
                assert SECRET not in answer
                assert "{% block" not in answer
            status, answer = await sent(site, f"GET {path_of(site)}/page.css HTTP/1.1")
            assert status == 200
            assert "text/css" in answer, "control"

    async def test_none_gets_by_the_part_that_nobody_can_guess(self, tmp_path: Path) -> None:
        """The cookie is sent too: what has to be missing is the part of the path."""
        async with pages(tmp_path) as (site, state):
            await fill(state)
            for path in ("page.css", "executions/x1"):
                for guess in ("guess/../{}", "guess/%2e%2e/{}", "../s/guess", "%2e%2e/s/guess"):
                    status, answer = await sent(site, f"GET /s/{guess.format(path)}/{path} HTTP/1.1")
                    assert status == 403
                    assert "github" not in answer
                assert (await sent(site, f"GET {path_of(site)}/{path} HTTP/1.1"))[0] == 200, "control"

    async def test_executions_and_calls_are_found_by_their_exact_names_alone(self, tmp_path: Path) -> None:
        names = [
            *("../x1", "..%2Fx1", "x1%00", "x1%20", "X1", "x%", "x_", "*", "x1' OR '1'='1", "x1%0a", "%0ax1"),
            *("x1/../x2", "x1%2f..%2fx2", "x1;a=1", "{{ 7*7 }}", "%ff%fe", "x" * 6_000),
        ]
        paths = [quote(name, safe="%/;=*'~") for name in names]
        paths += [f"x1/calls/{number}" for number in ("0", "-1", "1.0", "1e0", "%091", "%d9%a1", "9" * 400, "1'")]
        async with pages(tmp_path) as (site, state):
            await fill(state)
            for path in paths:
                for end in ("", "/calls/1"):
                    status, answer = await sent(site, f"GET {path_of(site)}/executions/{path}{end} HTTP/1.1")
                    assert status in (400, 403, 404), path
                    assert "list_issues" not in answer
                    assert ">49<" not in answer
            assert "acme/web" in await site.text("executions/x1/calls/1"), "control"

    async def test_a_query_of_any_kind_is_answered_by_a_page(self, tmp_path: Path) -> None:
        fields = ("after", "live", "before", "since", "until", "status", "text", "days")
        values = ("nan", "inf", "-1", "%00", "%ff", "%d9%a1", "9" * 400, "0001-01-01", "9999-12-31")
        async with pages(tmp_path) as (site, state):
            await fill(state)
            for path, field, value in itertools.product(("executions", "executions/x1", "savings"), fields, values):
                line = f"GET {path_of(site)}/{path}?{field}={value} HTTP/1.1"
                assert (await sent(site, line))[0] == 200, line


class TestHeaders:
    async def test_a_path_adds_none_to_an_answer(self, tmp_path: Path) -> None:
        names = [
            *("x1%0d%0aSet-Cookie:%20codemode=evil", "x1%0aLocation:%20https://evil.example"),
            *("x1%0d%0a%0d%0a<script>alert(1)</script>", "x1%E5%98%8D%E5%98%8ASet-Cookie:%20codemode=evil"),
        ]
        async with pages(tmp_path) as (site, state):
            await fill(state)
            body = f"token={await site.token()}".encode()
            for name in names:
                for line, sent_body in (
                    (f"GET {path_of(site)}/executions/{name}", b""),
                    (f"GET {path_of(site)}/{name}", b""),
                    (f"POST {path_of(site)}/executions/{name}/replay", body),
                ):
                    _, answer = await sent(site, f"{line} HTTP/1.1", sent_body)
                    head = answer.partition("\r\n\r\n")[0].lower()
                    headers = [it.partition(":")[0] for it in re.split("[\r\n]+", head)[1:]]
                    assert "set-cookie" not in headers
                    assert "evil.example" not in head.partition("location:")[0]
                    assert headers.count("location") == ("303" in head.split("\r\n")[0])
                    assert "<script>alert" not in answer

    async def test_no_form_leads_to_another_site(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            body = f"token={await site.token()}".encode()
            for name in ("%2f%2fevil.example", "/evil.example", "https:%2f%2fevil.example", "%5cevil.example"):
                _, answer = await sent(site, f"POST {path_of(site)}/executions/{name}/replay HTTP/1.1", body)
                for place in re.findall(r"(?i)\nlocation: (\S*)", answer):
                    assert place.startswith(f"{path_of(site)}/executions/")
                refused, answer = await sent(site, f"POST /{name}{path_of(site)}/executions/x1/replay HTTP/1.1", body)
                assert (refused, "ocation:" in answer) == (403, False)
            _, answer = await sent(site, f"POST {path_of(site)}/executions/x1/replay HTTP/1.1", body)
            assert f"\nlocation: {path_of(site)}/executions/x1\r\n" in answer, "control"

    async def test_of_proxies_change_nothing(self, tmp_path: Path) -> None:
        headers = [
            *("X-Forwarded-Host: evil.example", "X-Forwarded-For: 10.0.0.1", "Forwarded: host=evil.example"),
            *("X-Original-URL: /executions", "X-HTTP-Method-Override: POST"),
        ]
        async with pages(tmp_path) as (site, state):
            await fill(state)
            token = await site.token()
            for header in headers:
                status, answer = await sent(site, f"GET {path_of(site)}/executions HTTP/1.1\n{header}")
                assert status == 200
                assert "evil.example" not in answer
                assert (await sent(site, f"GET /s/guess/executions HTTP/1.1\n{header}"))[0] == 403
                await sent(site, f"GET {path_of(site)}/approvals/a1?token={token}&{FORM} HTTP/1.1\n{header}")
                assert not await is_answered(state)

    async def test_a_second_host_is_refused(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await fill(state)
            line = f"GET {path_of(site)}/executions HTTP/1.1"
            status, answer = await sent(site, f"{line}\nHost: evil.example")
            assert status in (400, 421)
            assert "x1" not in answer
            assert (await sent(site, line))[0] == 200, "control"


class TestForms:
    async def _posted(self, site: Pages, body: bytes, kind: str = "application/x-www-form-urlencoded") -> int:
        line = f"POST {path_of(site)}/approvals/a1 HTTP/1.1\nContent-Type: {kind}\nOrigin: {site.origin}"
        return (await sent(site, line, body))[0]

    async def test_of_another_shape_answer_nothing(self, tmp_path: Path) -> None:
        forms = [
            *("", "token", "token={token}", "token={token}&answer=yes&scope=call", "token={token}&answer=allow"),
            "token={token}&answer=allow&scope=everything",
            "token={token}&answer=allow&answer=refuse&scope=call",
            "token=guess&token={token}&answer=allow&scope=call",
            "token={token}&answer=allow&scope=call\xe9",
            "token={token}&answer=allow&scope=call&" + "&".join(f"f{n}=1" for n in range(30)),
            "token={token}&answer=allow&scope=call&reason=" + "x" * 20_000,
            '{{"token": "{token}", "answer": "allow", "scope": "call"}}',
            "\x00token={token}&answer=allow&scope=call",
            "token={token};answer=allow;scope=call",
            "token={token}%00&answer=allow&scope=call",
        ]
        async with pages(tmp_path) as (site, state):
            await fill(state)
            token = await site.token()
            for form in forms:
                assert await self._posted(site, form.format(token=token).encode("latin-1")) in (400, 403), form[:60]
                assert not await is_answered(state)
            assert await self._posted(site, f"token={token}&{FORM}".encode()) == 303
            assert await is_answered(state), "control"

    async def test_that_never_end_are_cut_off(self, tmp_path: Path) -> None:
        """A body in chunks has no length that could be looked at beforehand."""
        async with pages(tmp_path) as (site, state):
            await fill(state)
            name, _, port = site.origin.removeprefix("http://").partition(":")
            cookie = "; ".join(f"{key}={value}" for key, value in site.browser.cookies.items())
            head = f"POST {path_of(site)}/approvals/a1 HTTP/1.1\r\nHost: {name}:{port}\r\nCookie: {cookie}\r\n"
            chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
            async with await anyio.connect_tcp(name, int(port)) as stream, anyio.create_task_group() as tasks:

                async def pour() -> None:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        while True:
                            await stream.send(chunk)

                await stream.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
                tasks.start_soon(pour)
                with anyio.fail_after(20):
                    answer = await stream.receive()
                tasks.cancel_scope.cancel()
            assert b" 403 " in answer.partition(b"\r\n")[0]
            assert not await is_answered(state)
            assert "x1" in await site.text("executions"), "control: the pages are still served"


class TestOthersOnThisMachine:
    """They can connect, and find the port; what they don't have is a cookie, a code or the path."""

    async def test_no_answer_to_them_tells_the_path_of_the_pages(self, tmp_path: Path) -> None:
        """It stands in the Content-Security-Policy of the pages; whoever knows it can make a browser send the cookie
        to a server of theirs, since cookies are for all ports of an address."""
        lines = [
            *("GET / HTTP/1.1", "GET /s/ HTTP/1.1", "GET /open/guess HTTP/1.1", "HEAD /open/guess HTTP/1.1"),
            *("POST / HTTP/1.1", "OPTIONS * HTTP/1.1", "GET /page.css HTTP/1.1", "TRACE / HTTP/1.1"),
            *("GET http://elsewhere.example/ HTTP/1.1", "GET /s/../ HTTP/1.1", "GET /\x00 HTTP/1.1"),
        ]
        async with pages(tmp_path) as (site, _):
            host = site.origin.removeprefix("http://")
            for line, name in itertools.product(lines, (host, "elsewhere.example", "")):
                answer = await raw(host, f"{line}\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                assert answer.startswith("HTTP/1.1 4"), line
                assert path_of(site) not in answer
            control = (await sent(site, f"GET {path_of(site)}/executions HTTP/1.1"))[1]
            assert f"{path_of(site)}/page.css" in control.partition("\r\n\r\n")[0], "control: the pages' own policy"

    async def test_their_connections_without_a_request_keep_nobody_out(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, _), AsyncExitStack() as held:
            name, _, port = site.origin.removeprefix("http://").partition(":")
            for _ in range(http_connections.MAX_CONNECTIONS + 20):
                stream = await held.enter_async_context(await anyio.connect_tcp(name, int(port)))
                await stream.send(b"GET / HTTP/1.1\r\nHost: ")
            assert (await sent(site, f"GET {path_of(site)}/executions HTTP/1.1"))[0] == 200


async def raw(host: str, request: bytes) -> str:
    """The whole answer."""
    name, _, port = host.partition(":")
    answer = b""
    async with await anyio.connect_tcp(name, int(port)) as stream:
        await stream.send(request)
        with anyio.fail_after(20):
            async for chunk in stream:
                answer += chunk
    return answer.decode("utf-8", "replace")
