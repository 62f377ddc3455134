"""The HTTP service around a small app: the token before all else, and bounds on connections, headers and bodies."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from codemode_server.domain.errors import SettingsError
from codemode_server.mcp_server import http, http_token
from codemode_server.mcp_server.auth.authenticator import Authenticator
from codemode_server.mcp_server.server import McpServer
from codemode_server.startup.http_listener import HttpListener
from codemode_server.support import http_connections
from tests.answering import free_port
from tests.waiting import until

TOKEN = "t" * 43
GET = f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
POST = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


async def sizes(scope: Any, receive: Any, send: Any) -> None:
    """An app that answers with the size of the body."""
    if scope["type"] == "lifespan":
        return
    body = (await receive())["body"]
    text = str(len(body)).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def serving(
    app: Any = sizes, mcp: McpServer | None = None
) -> AsyncIterator[Callable[[], Awaitable[SocketStream]]]:
    """The service; gives what opens a connection to it."""
    server = http.HttpService(app, Authenticator(TOKEN), mcp or McpServer()).server
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            await until(lambda: server.started)
            try:
                yield lambda: anyio.connect_tcp("127.0.0.1", port)
            finally:
                server.should_exit = True


async def answer(stream: SocketStream, request: bytes = b"") -> str:
    """All that comes until a whole answer is there or the connection ends; empty if it ended at once."""
    received = b""
    with anyio.fail_after(60):
        try:
            if request:
                await stream.send(request)
            while b"\r\n\r\n" not in received or received.endswith(b"\r\n\r\n"):
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return received.decode()


def status(text: str) -> int:
    return int(text.split()[1]) if text else 0


async def ask(connect: Callable[[], Awaitable[SocketStream]], request: bytes) -> str:
    async with await connect() as stream:
        return await answer(stream, request)


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Authorization: Bearer\r\n",
        b"Authorization: Bearer " + b"u" * 43 + b"\r\n",
        f"Authorization: Bearer {TOKEN}x\r\n".encode(),
        f"Authorization: Bearer {TOKEN[:-1]}\r\n".encode(),
        f"Authorization: Basic {TOKEN}\r\n".encode(),
        f"Authorization: {TOKEN}\r\n".encode(),
        f"Authorization: Bearer \u00e9{TOKEN}\r\n".encode(),
        f"X-Authorization: Bearer {TOKEN}\r\n".encode(),
        f"Authorization: Bearer wrong\r\nAuthorization: Bearer {TOKEN}\r\n".encode(),
    ],
)
async def test_without_the_token_nothing_is_answered_but_where_it_is(headers: bytes) -> None:
    async with serving() as connect:
        assert status(await ask(connect, GET)) == 200, "the control"
        before_its_body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n" + headers + b"\r\n"
        assert status(await ask(connect, before_its_body)) == 401
        for start in (b"GET / HTTP/1.1", b"POST /mcp HTTP/1.1", b"OPTIONS * HTTP/1.1", b"DELETE /mcp HTTP/1.1"):
            text = await ask(connect, start + b"\r\nHost: x\r\nContent-Length: 0\r\n" + headers + b"\r\n")
            assert status(text) == 401
            assert 'www-authenticate: Bearer realm="codemode-server"' in text
            assert text.endswith(f" finds the token in {http_token.token_file()}\n")
            assert TOKEN not in text


async def test_a_body_within_the_bound_comes_through_and_a_larger_one_does_not() -> None:
    async with serving() as connect:
        bound = http.MAX_BODY_BYTES
        whole = POST + f"Content-Length: {bound}\r\n\r\n".encode() + b"x" * bound
        assert (await ask(connect, whole)).endswith(f"\r\n\r\n{bound}")
        declared = POST + f"Content-Length: {bound + 1}\r\n\r\n".encode()
        assert status(await ask(connect, declared)) == 413
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        within = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3 + b"0\r\n\r\n"
        assert (await ask(connect, within)).endswith(f"\r\n\r\n{3 * 0x10000}")
        beyond = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (bound // 0x10000) + b"1\r\nx\r\n"
        assert status(await ask(connect, beyond)) == 413


async def test_a_body_with_more_values_than_a_request_has_is_refused_before_it_is_parsed() -> None:
    bound = http.MAX_BODY_VALUES
    within, beyond = b"[" + b"1," * (bound - 2) + b"1]", b"[" + b"[]," * bound + b"1]"
    commas = b'"' + b"," * 900_000 + b'"'  # in a text they are no values
    async with serving() as connect:
        for body, answered in ((within, 200), (beyond, 413), (commas, 200)):
            request = POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
            assert status(await ask(connect, request)) == answered


async def test_large_requests_are_parsed_one_at_a_time_and_no_longer_than_until_their_answer_begins() -> None:
    """Small ones, the control, wait for none of them."""
    reading, answering, most = 0, 0, 0
    read, go_on = anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal reading, answering, most
        if scope["type"] == "lifespan":
            return
        is_large = len((await receive())["body"]) > 100_000
        reading += is_large
        most = max(most, reading)
        if is_large:
            await read.wait()
        reading -= is_large
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        answering += is_large
        if is_large:
            await go_on.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    def posted(size: int) -> bytes:
        return POST + f"content-length: {size}\r\n\r\n".encode() + b"x" * size

    async with serving(app) as connect, anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(ask, connect, posted(200_000))
        with anyio.fail_after(60):
            while reading < 1:
                await anyio.sleep(0.01)
            assert status(await ask(connect, posted(1))) == 200
            read.set()
            while answering < 6:
                await anyio.sleep(0.01)
        go_on.set()
    assert most == 1


async def test_a_body_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.3)
    async with serving() as connect:
        assert status(await ask(connect, POST + b"Content-Length: 2\r\n\r\nab")) == 200, "the control"
        assert status(await ask(connect, POST + b"Content-Length: 3\r\n\r\nab")) == 408


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n"])
async def test_a_connection_that_brings_no_request_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(http_connections, "HEADER_SECONDS", 0.3)
    async with serving() as connect:
        assert await ask(connect, sent) == ""
        async with await connect() as stream:
            assert status(await answer(stream, GET)) == 200
            assert await answer(stream, sent) == "", "after an answer as well"


async def test_headers_that_come_bit_by_bit_get_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEADER_SECONDS", 0.5)
    async with serving() as connect, await connect() as stream:

        async def drip() -> None:
            await stream.send(b"GET / HTTP/1.1\r\n")
            while True:
                await stream.send(b"X-A: b\r\n")
                await anyio.sleep(0.05)

        with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await drip()


async def test_endless_headers_are_refused() -> None:
    async with serving() as connect:
        assert status(await ask(connect, b"GET / HTTP/1.1\r\n" + b"X-A: " + b"b" * 200_000)) in (0, 400)


async def test_with_too_many_connections_the_one_that_waits_longest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 8)
    async with serving() as connect:
        streams = [await connect() for _ in range(8)]
        for stream in streams:
            assert status(await answer(stream, GET)) == 200, "as many as are allowed are served"
        first, *others = streams
        async with await connect() as another:
            assert status(await answer(another, GET)) == 200
            assert await answer(first, b"GET") == ""
            for stream in others:
                assert status(await answer(stream, GET)) == 200
        for stream in streams:
            await stream.aclose()


async def test_a_request_that_is_served_is_not_cut_off_by_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 8)
    async with serving() as connect, await connect() as served:
        await served.send(POST + b"Content-Length: 2\r\n\r\n")
        assert status(await ask(connect, GET)) == 200, "its headers have been read by now"
        flood = [await connect() for _ in range(40)]
        assert status(await answer(served, b"ab")) == 200
        for stream in flood:
            await stream.aclose()


def test_nobody_can_connect_before_the_token_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for the port reads the token next."""
    address = ("127.0.0.1", free_port())

    def token(*, is_new: bool) -> str:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=60)
        return TOKEN

    monkeypatch.setattr(http_token, "token", token)
    opened = HttpListener.open(address[0], address[1], SettingsError("no configuration"), new_token=False)
    with opened.socket:
        assert opened.tokens == {TOKEN}
        socket.create_connection(address, timeout=60).close()  # control


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


def message(method: str, session: str = "", **params: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1:1",
        f"Authorization: Bearer {TOKEN}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *([f"Mcp-Session-Id: {session}", "Mcp-Protocol-Version: 2025-11-25"] if session else []),
    ]
    return "\r\n".join([*headers, "", ""]).encode() + body


@asynccontextmanager
async def serving_sessions() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """The service with the app of `serve --http`, and no product behind it yet; gives what asks it."""
    front = McpServer()
    async with serving(http.sessions(front, "127.0.0.1")) as connect:

        async def asked(method: str, session: str = "", **params: Any) -> str:
            return await ask(connect, message(method, session, **params))

        yield asked


async def session_of(asked: Callable[..., Awaitable[str]]) -> str:
    headers = (await asked("initialize", **INITIALIZE)).partition("\r\n\r\n")[0]
    return next(line.split()[1] for line in headers.splitlines() if line.lower().startswith("mcp-session-id:"))


async def test_a_session_that_is_idle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has gone without a word would keep its session, and there are only so many."""
    async with serving_sessions() as asked:
        session = await session_of(asked)
        for _ in range(3):
            assert status(await asked("ping", session)) == 200, "the control: with the usual time it goes on"
    monkeypatch.setattr(http, "SESSION_IDLE_SECONDS", 0.01)
    async with serving_sessions() as asked:
        session = await session_of(asked)
        with anyio.fail_after(60):
            while status(await asked("ping", session)) == 200:
                await anyio.sleep(0.1)  # each request begins the time anew
        assert status(await asked("ping", session)) == 404
        assert await session_of(asked) != session, "another one begins"


async def test_balancers_learn_without_a_token_whether_it_lives_and_takes_programs_and_nothing_else() -> None:
    """Whatever name they ask under; a page that reaches them by DNS rebinding learns no more."""
    front = McpServer()
    async with serving(http.sessions(front, "127.0.0.1"), front) as connect:

        async def asked(line: str) -> tuple[int, str]:
            text = await ask(connect, f"{line}\r\nHost: evil.example\r\n\r\n".encode())
            return status(text), text.partition("\r\n\r\n")[2]

        assert await asked("GET /healthz HTTP/1.1") == (200, "ok\n")
        assert await asked("HEAD /readyz HTTP/1.1") == (503, "")
        assert await asked("GET /readyz HTTP/1.1") == (503, "starting\n")
        front.set_failed(SettingsError("upstream.yaml:3: token hunter2 is wrong"))
        assert await asked("GET /readyz HTTP/1.1") == (503, "the configuration can't be used\n")
        front.drain()
        assert await asked("GET /readyz HTTP/1.1") == (503, "draining\n")
        assert await asked("GET /healthz HTTP/1.1") == (200, "ok\n")
        for other in ("POST /healthz", "GET /healthz/", "GET /readyz/x", "GET //readyz"):
            assert (await asked(f"{other} HTTP/1.1"))[0] == 401
