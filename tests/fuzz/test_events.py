"""Server-sent events of an upstream, through our transport and mcp's client: any body ends the call, none hangs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from codemode_server.upstreams.transports import http
from tests.fuzz.strategies import damaged, encoded, objects, pieces, spellings, texts, values

SECONDS = 20
WAIT_S = 0.5
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

    got: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(SECONDS):
        patch.setattr(http, "_client", client)
        async with http.HttpTransport("http://upstream.example/mcp", "http", {}).open() as (read, write):
            request = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={})
            await write.send(SessionMessage(request))
            with anyio.move_on_after(WAIT_S):
                async for message in read:
                    got.append(message)
                    break
    return got


bodies = pieces(damaged(st.one_of(events, st.builds(encoded, answers, spellings))))


@given(bodies, types, st.sampled_from([200, 202, 404, 500]))
@example([b"data: {", b"}\n\n"], "text/event-stream", 200)
@example([b"data: " + b"[" * 100_000 + b"\n\n"], "text/event-stream", 200)
@example([b"[" * 100_000], "application/json", 200)
@example([b"\xff\xfe{\x00}\x00"], "application/json", 200)
def test_any_body_is_messages_or_an_error(cut: list[bytes], content_type: str, status: int) -> None:
    for message in anyio.run(answers_to_one_call, cut, content_type, status):
        assert isinstance(message, SessionMessage | Exception)
