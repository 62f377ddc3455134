"""What an upstream sends, over stdio or as server-sent events: JSON-RPC messages, an error or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from codemode_server.support.off_loop import Pace
from codemode_server.upstreams.connection_deps import ConnectionDeps
from codemode_server.upstreams.messages import parse_line
from codemode_server.upstreams.session import Session
from codemode_server.upstreams.transports import http
from codemode_server.upstreams.transports.stdio import StdioSettings, StdioTransport
from tests.fuzz.strategies import damaged, encoded, has_surrogates, objects, pieces, spellings, texts, values

ids = st.one_of(st.integers(0, 9), texts)
messages = st.one_of(
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "result": objects}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "method": texts}, optional={"params": objects}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": texts}, optional={"params": objects}),
    st.fixed_dictionaries(
        {
            "jsonrpc": st.just("2.0"),
            "id": ids,
            "error": st.fixed_dictionaries({"code": st.integers(-9, 9), "message": texts}, optional={"data": values}),
        }
    ),
)
loose = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("jsonrpc", "id", "method", "params", "result", "error"), values)
)
single = st.one_of(messages, loose)
KINDS = (JSONRPCRequest, JSONRPCNotification, JSONRPCResponse, JSONRPCError)


@given(damaged(st.builds(encoded, st.one_of(single, st.lists(single, max_size=4)), spellings)))
@example(b"[" * 100_000)
@example(b'{"id":1,"error":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}")
@example(b'{"id":1,"result":{"a":1e999}}')
@example(b'{"id":1,"result":{"a":NaN}}')
def test_whatever_comes_is_read_as_messages_or_dropped(line: bytes) -> None:
    for message in parse_line(line):
        assert isinstance(message, KINDS)
        message.model_dump_json().encode()


@given(messages.filter(lambda message: not has_surrogates(message)), spellings)
def test_an_honest_message_says_what_it_said(message: dict[str, Any], how: int) -> None:
    (parsed,) = parse_line(encoded(message, how))
    said = parsed.model_dump(by_alias=True, exclude_unset=True)
    if "error" in message:
        message["error"].setdefault("data", None)
    assert said == message


streams = pieces(st.lists(damaged(st.builds(encoded, messages, spellings)), max_size=5).map(b"\n".join))


class Recorder(Session):
    """Records what comes in place of taking it."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def take(self, message: Any, is_read: anyio.Event | None = None) -> bool:
        self.got.append(message)
        return False


def delivered(cut: list[bytes], most: int) -> list[Any]:
    """What a child's stdout gives, cut like this, where a message may have so many bytes."""
    transport = StdioTransport(StdioSettings(command="upstream"), None, max_message_bytes=lambda: most)  # type: ignore[arg-type]
    session = Recorder()

    async def read() -> None:
        pace = Pace()
        for chunk in cut:
            await transport._deliver(chunk, session, pace)

    anyio.run(read)
    return session.got


@given(streams)
def test_lines_are_cut_at_their_ends_wherever_the_pipe_cuts_them(cut: list[bytes]) -> None:
    lines = b"".join(cut).split(b"\n")[:-1]
    expected = [message for line in lines if line.strip() for message in parse_line(line)]
    assert delivered(cut, 2**20) == expected


@given(streams, st.integers(0, 60))
@example([b'{"result": {"a": "aaaaaaaaaaaaaaaaaaaa"}, "id": "\xff"}\n'], 20)
@example([b'{"result": {"a": "aaaaaaaaaaaaaaaaaaaa"}, "id": "\x01"}\n'], 20)
def test_a_line_that_is_too_long_fails_its_call_or_is_dropped(cut: list[bytes], most: int) -> None:
    for message in delivered(cut, most):
        assert isinstance(message, KINDS)
        message.model_dump_json().encode()


WAIT_S = 0.1
answers = st.one_of(
    objects.map(lambda result: {"jsonrpc": "2.0", "id": 1, "result": result}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": values, "method": values, "params": values}),
    values,
)
field_names = st.sampled_from(["event", "id", "retry", "data", ""])
fields = st.one_of(
    st.builds(lambda data: b"data: " + data, st.builds(encoded, answers, spellings)),
    st.builds(lambda name, text: f"{name}: {text}".encode("utf-8", "replace"), field_names, texts),
    st.sampled_from([b"data", b"event: message", b"retry: 0", b"retry: 99999999999999999999", b":", b"", b"data:\xff"]),
)
events = st.lists(st.tuples(fields, st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])).map(b"".join), max_size=8).map(
    b"".join
)
types = st.sampled_from(["text/event-stream", "application/json", "text/html", "application/json; charset=utf-16", ""])


class Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def answers_to_one_call(cut: list[bytes], content_type: str, status: int) -> list[Any]:
    """What the session gets for one request whose answer has this body."""

    async def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)
        return httpx2.Response(status, headers={"content-type": content_type}, stream=Body(cut))

    original = http._client

    def client(*given: Any, **named: Any) -> httpx2.AsyncClient:
        made = original(*given, **named)
        made._transport = httpx2.MockTransport(respond)
        return made

    session = Recorder()
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(60):
        patch.setattr(http, "_client", client)
        deps = ConnectionDeps(None, None, lambda: None)  # type: ignore[arg-type]
        transport = http.HttpTransport(http.HttpSettings(url="http://upstream.example/mcp"), deps)
        async with transport.open() as channel, anyio.create_task_group() as tasks:
            tasks.start_soon(channel.deliver_to, session)
            await channel.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, {})
            with anyio.move_on_after(WAIT_S):
                while not session.got:
                    await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    return session.got


bodies = pieces(damaged(st.one_of(events, st.builds(encoded, answers, spellings))))


@given(bodies, types, st.sampled_from([200, 202, 404, 500]))
@example([b"data: {", b"}\n\n"], "text/event-stream", 200)
@example([b"data: " + b"[" * 100_000 + b"\n\n"], "text/event-stream", 200)
@example([b"[" * 100_000], "application/json", 200)
@example([b"\xff\xfe{\x00}\x00"], "application/json", 200)
def test_any_body_is_messages_or_an_error(cut: list[bytes], content_type: str, status: int) -> None:
    for message in anyio.run(answers_to_one_call, cut, content_type, status):
        assert isinstance(message, KINDS)
