"""Answers what a server asks. A request is validated first, since it is passed on to the host, and so is its answer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.input_requests import InputRefused, InputRequest
from codemode_server.support.off_loop import is_large
from codemode_server.upstreams.answers import RequestFailed

if TYPE_CHECKING:
    from codemode_server.upstreams.requests import Requests
    from codemode_server.upstreams.session import Session

_TAKING_S = 0.1
"""A server takes an answer in the background: the official one for files resolves each root before it allows it."""
_RESULT: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)


async def wait_answered(session: Session) -> None:
    """Wait until what the server has asked since the handshake is answered. Raises as `Session.request`."""
    with suppress(RequestFailed):  # whether it knows `ping` or not, what it asked before has come
        await session.request("ping", {})
    while session.replies and not session.lost.is_set():
        await session.replied.wait()
    await anyio.sleep(_TAKING_S)


async def result_for(request: types.JSONRPCRequest, version: str | None, requests: Requests) -> dict[str, Any]:
    """The result of a request in a session of this protocol version. Raises `RequestFailed`: it is answered with this
    error."""
    if request.method == "ping":
        return {}
    if is_large(request.params):  # it would be validated on the event loop
        raise RequestFailed(types.INVALID_PARAMS, "the request is too large")
    try:
        asked = methods.parse_server_request(request.method, version or LATEST_HANDSHAKE_VERSION, request.params)
    except KeyError:
        raise RequestFailed(types.METHOD_NOT_FOUND, "Method not found") from None
    except ValidationError:
        raise RequestFailed(types.INVALID_PARAMS, "Invalid request parameters") from None
    params = asked.model_dump(by_alias=True, mode="json", exclude_none=True).get("params") or {}
    try:
        answer = _RESULT.validate_python(await requests.answer(InputRequest(request.method, params)))
    except InputRefused as refusal:
        raise RequestFailed(types.INVALID_REQUEST, str(refusal)) from None
    except ValidationError:
        raise RequestFailed(types.INTERNAL_ERROR, "the host's answer is not valid") from None
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
