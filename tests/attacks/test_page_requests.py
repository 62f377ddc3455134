"""Requests to the pages of `codemode-server ui` that none of its pages sends: hostile paths, headers and forms.

They are sent as raw bytes, since a client mends some of them, and with the cookie and the token of the person's
browser, so that only the request itself is in question. Each attack has its control: the request of a page.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.approvals import ApprovalId
from tests.web.pages import PROGRAM, TRIAGE, Pages, State, pages, question

pytestmark = pytest.mark.page_attack
SECRET = "content of a file that no page shows"
PATHS = (
    "/page.css/../../../state/page-secret",
    "/%2e%2e/%2e%2e/%2e%2e/page-secret",
    "/executions/%252e%252e%2f%252e%252e%2fstate/page-secret",
    "/..%5c..%5cpage-secret",
    "/page.css/..%2f..%2ftemplates/base.html",
)
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


async def test_no_path_leads_to_a_file(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await fill(state)
        for path in PATHS:
            status, answer = await sent(site, f"GET {path_of(site)}{path} HTTP/1.1")
            assert status in (400, 403, 404), path
            assert SECRET not in answer
            assert "{% block" not in answer
        status, answer = await sent(site, f"GET {path_of(site)}/page.css HTTP/1.1")
        assert (status, "text/css" in answer) == (200, True), "control"


FORMS = [
    *("", "token={token}", "token={token}&answer=yes&scope=call", "token={token}&answer=allow&scope=everything"),
    "token={token}&answer=allow&answer=refuse&scope=call",
    "token=guess&token={token}&answer=allow&scope=call",
    "token={token}&answer=allow&scope=call\xe9",
    "token={token}&answer=allow&scope=call&" + "&".join(f"f{n}=1" for n in range(30)),
    "token={token}&answer=allow&scope=call&reason=" + "x" * 20_000,
    '{{"token": "{token}", "answer": "allow", "scope": "call"}}',
    "token={token}%00&answer=allow&scope=call",
]


async def test_forms_of_another_shape_answer_nothing(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await fill(state)
        token, line = await site.token(), f"POST {path_of(site)}/approvals/a1 HTTP/1.1\nOrigin: {site.origin}"
        line += "\nContent-Type: application/x-www-form-urlencoded"
        for form in FORMS:
            assert (await sent(site, line, form.format(token=token).encode("latin-1")))[0] in (400, 403), form[:60]
            assert not await is_answered(state)
        assert (await sent(site, line, f"token={token}&{FORM}".encode()))[0] == 303
        assert await is_answered(state), "control"


async def test_no_answer_to_others_on_this_machine_tells_the_path_of_the_pages(tmp_path: Path) -> None:
    """They can connect, and find the port. The path stands in the Content-Security-Policy of the pages; who knows it
    can make a browser send the cookie to a server of theirs, since cookies are for all ports of an address."""
    lines = [
        *("GET / HTTP/1.1", "GET /open/guess HTTP/1.1", "HEAD /open/guess HTTP/1.1", "POST / HTTP/1.1"),
        *(
            "OPTIONS * HTTP/1.1",
            "GET /page.css HTTP/1.1",
            "GET http://elsewhere.example/ HTTP/1.1",
            "GET /\x00 HTTP/1.1",
        ),
    ]
    async with pages(tmp_path) as (site, _):
        host = site.origin.removeprefix("http://")
        for line, name in itertools.product(lines, (host, "elsewhere.example", "")):
            answer = await raw(host, f"{line}\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            assert answer.startswith("HTTP/1.1 4"), line
            assert path_of(site) not in answer
        control = (await sent(site, f"GET {path_of(site)}/executions HTTP/1.1"))[1]
        assert f"{path_of(site)}/page.css" in control.partition("\r\n\r\n")[0], "control: the pages' own policy"


async def raw(host: str, request: bytes) -> str:
    """The whole answer."""
    name, _, port = host.partition(":")
    answer = b""
    async with await anyio.connect_tcp(name, int(port)) as stream:
        await stream.send(request)
        with anyio.fail_after(60):
            async for chunk in stream:
                answer += chunk
    return answer.decode("utf-8", "replace")
