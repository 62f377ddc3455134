"""Passes a request on to the replica whose program it answers.

Up to protocol 2025-11-25 a balancer keeps a session on one replica. In 2026-07-28 any replica may get the answer to
what a program asked its host, and the program waits in the replica that asked: its address is in the sealed state that
comes with the answer, which only servers with the same `state.key` can make. That replica checks the request as if it
had come from the host.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import httpx2

from codemode_server.domain.ids import ExecutionId

if TYPE_CHECKING:
    from mcp.server.request_state import RequestStateSecurity
    from starlette.requests import Request
    from starlette.types import Send

_CONNECT_SECONDS = 2.0
_FORWARDED = b"codemode-forwarded"
"""Header of a request that was passed on, which is not passed on again."""
_PER_CONNECTION = {
    b"connection",
    b"keep-alive",
    b"transfer-encoding",
    b"content-length",
    b"date",
    b"server",
    _FORWARDED,
}
_UNAVAILABLE = 503


def address_of(listener: socket.socket) -> str:
    """Where other replicas reach this one; empty if that can't be found out."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared
        try:
            host = socket.gethostbyname(socket.gethostname())
        except OSError:
            return ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def state_of(execution_id: ExecutionId, address: str) -> str:
    """What comes back with the host's answer to a program of the replica at this address."""
    return f"{execution_id}@{address}"


def execution_of(state: str) -> ExecutionId:
    return ExecutionId(state.partition("@")[0])


def owner_of(body: bytes, states: RequestStateSecurity) -> str:
    """The address in the state of a request; empty if there is none that a server with our key has made."""
    if b'"requestState"' not in body:
        return ""
    try:
        claims = json.loads(states.codec.unseal(json.loads(body)["params"]["requestState"]))
        return str(claims["s"]).partition("@")[2]
    except Exception:  # noqa: BLE001 - mcp refuses what is no state of ours
        return ""


async def answered_by(address: str, request: Request, body: bytes, send: Send) -> bool:
    """Have the replica at `address` answer; False if it can't or doesn't take the request, and nothing was sent to the
    host. A host that leaves leaves there too."""
    headers = [(name, value) for name, value in request.headers.raw if name not in _PER_CONNECTION]
    if _FORWARDED.decode() in request.headers:
        return False
    is_answered = False

    async def pass_on() -> None:
        nonlocal is_answered
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
        async with (
            httpx2.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream(
                "POST", f"{address}{request.url.path}", headers=[*headers, (_FORWARDED, b"1")], content=body
            ) as answer,
        ):
            if answer.status_code == _UNAVAILABLE:
                return
            is_answered = True
            kept: Any = [(name.lower(), value) for name, value in answer.headers.raw]
            kept = [(name, value) for name, value in kept if name not in _PER_CONNECTION - {b"content-length"}]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        with suppress(httpx2.TransportError, httpx2.InvalidURL):  # the host's answer ends in the middle if it had begun
            await pass_on()
        tasks.cancel_scope.cancel()
    return is_answered
