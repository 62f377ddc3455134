"""Forwards the host's answer to a question to the replica whose program asked it.

Up to protocol 2025-11-25 a balancer keeps a session on one replica. In 2026-07-28 the answer may come to any replica,
while the program waits in the one that asked. The host returns a sealed request state with its answer, which has the
address of that replica; only replicas with the same `state.key` can seal one. The replica that asked checks the request
as if it had come from the host.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import httpx2

from codemode_server.domain.ids import ExecutionId

if TYPE_CHECKING:
    from mcp.server.request_state import RequestStateSecurity
    from starlette.requests import Request
    from starlette.types import Send

_CONNECT_SECONDS = 2.0
_FORWARDED = "codemode-forwarded"
"""Header of a forwarded request, which is not forwarded again."""
_PER_CONNECTION = {b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"}
_UNAVAILABLE = 503


def address_of(listener: socket.socket) -> str:
    """The address at which other replicas reach this one; empty if it can't be determined."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared
        try:
            host = socket.gethostbyname(socket.gethostname())
        except OSError:
            return ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def request_state(execution_id: ExecutionId, address: str) -> str:
    """The state that a host returns with its answer: the program that asked, and the address of its replica."""
    return f"{execution_id}@{address}"


def execution_in(state: str) -> ExecutionId:
    return ExecutionId(state.partition("@")[0])


def replica_in(body: bytes, states: RequestStateSecurity) -> str:
    """The address in the state of a request; empty if it has no state that was sealed with our key."""
    if b'"requestState"' not in body:
        return ""
    try:
        claims = json.loads(states.codec.unseal(json.loads(body)["params"]["requestState"]))
        return str(claims["s"]).partition("@")[2]
    except Exception:  # noqa: BLE001 - mcp rejects what is no state of ours
        return ""


async def forward(request: Request, body: bytes, address: str, send: Send) -> bool:
    """Send a request to the replica at `address`, and what that answers to the host. If the host disconnects, so does
    this. False if that replica can't be reached or is being stopped; then the host was sent nothing."""
    if _FORWARDED in request.headers:
        return False
    headers = [*_end_to_end(request.headers.raw), (_FORWARDED.encode(), b"1")]
    is_answered = False

    async def exchange() -> None:
        nonlocal is_answered
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
        async with (
            httpx2.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream("POST", f"{address}{request.url.path}", headers=headers, content=body) as answer,
        ):
            if answer.status_code == _UNAVAILABLE:
                return
            is_answered = True
            start = {"status": answer.status_code, "headers": _end_to_end(answer.headers.raw)}
            await send({"type": "http.response.start", **start})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def cancel_on_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_on_disconnect)
        with suppress(httpx2.TransportError, httpx2.InvalidURL):  # an answer that had begun is cut off
            await exchange()
        tasks.cancel_scope.cancel()
    return is_answered


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers, in lower case, without those of one connection."""
    return [(name.lower(), value) for name, value in headers if name.lower() not in _PER_CONNECTION]
