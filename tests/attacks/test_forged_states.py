"""The state of a request names the replica that it is passed on to, with the host's token: nobody but a server with the
same key can name one."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp.server.request_state import RequestStateSecurity

from codemode_server.domain.ids import ExecutionId
from codemode_server.mcp_server.replicas import replica_in, request_state
from codemode_server.mcp_server.server import McpServer
from tests.answering import free_port
from tests.mcp_server.test_http import POST, TOKEN, ask, serving

OURS, OTHER = "o" * 40, "x" * 40


def body(token: Any) -> bytes:
    params = {"name": "execute_code", "arguments": {"code": "1"}, "requestState": token}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def sealed(states: RequestStateSecurity, address: str) -> str:
    return states.codec.seal(json.dumps({"s": request_state(ExecutionId("x12"), address)}).encode())


@pytest.mark.parametrize(
    "token",
    [
        sealed(McpServer(secret=OTHER).request_states, "http://evil.example"),
        sealed(McpServer().request_states, "http://evil.example"),
        "x12@http://evil.example",
        "v1.",
        17,
        None,
        {"s": "x@http://evil.example"},
    ],
    ids=["another key", "a random key", "plain", "cut", "a number", "null", "an object"],
)
def test_a_state_that_no_server_with_the_key_made_names_no_replica(token: Any) -> None:
    states = McpServer(secret=OURS).request_states
    assert replica_in(body(sealed(states, "http://10.0.0.2:1")), states) == "http://10.0.0.2:1", "the control"
    assert replica_in(body(token), states) == ""
    assert replica_in(b'{"requestState": ', states) == ""


@pytest.mark.parametrize(("secret", "is_passed_on"), [(OURS, True), (OTHER, False)], ids=["ours", "forged"])
async def test_nothing_is_sent_to_the_address_in_a_forged_state(secret: str, *, is_passed_on: bool) -> None:
    front, arrived = McpServer(secret=OURS), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"me"})

    async def other(listener: Any) -> None:
        async with listener:
            request = await listener.receive()
            arrived.set()
            assert TOKEN.encode() in request
            await listener.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")

    port = free_port()
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener,
        anyio.create_task_group() as tasks,
        serving(app, front) as connect,
    ):
        tasks.start_soon(listener.serve, other)
        content = body(sealed(McpServer(secret=secret).request_states, f"http://127.0.0.1:{port}"))
        head = POST + f"Content-Length: {len(content)}\r\n".encode()
        answer = await ask(connect, head + b"\r\n" + content)
        assert answer.partition("\r\n\r\n")[2] == ("other" if is_passed_on else "me")
        assert arrived.is_set() == is_passed_on
        assert (await ask(connect, head + b"Codemode-Forwarded: 1\r\n\r\n" + content)).endswith("me")
        tasks.cancel_scope.cancel()
