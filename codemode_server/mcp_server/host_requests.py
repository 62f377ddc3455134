"""Requests to the host of a tool call: what it can answer, and how it is asked in either protocol.

Up to 2025-11-25 the host gets a request of its own, on the stream of the call. In 2026-07-28 it gets the requests as
the answer to its call, and repeats the call with the answers: the program waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import parse_server_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest

_REQUESTS: TypeAdapter[dict[str, types.InputRequest]] = TypeAdapter(dict[str, types.InputRequest])
_RESULTS: dict[Feature | None, Any] = {
    Feature.SAMPLING: types.CreateMessageResult,
    Feature.ROOTS: types.ListRootsResult,
}


def features_of(capabilities: types.ClientCapabilities | None) -> frozenset[Feature]:
    """The features that a host has declared."""
    if capabilities is None:
        return frozenset()
    features: set[Feature] = set()
    if (elicitation := capabilities.elicitation) is not None:
        # An empty object means forms: hosts before 2025-11-25 know nothing else.
        if elicitation.form is not None or elicitation.url is None:
            features.add(Feature.ELICITATION)
        if elicitation.url is not None:
            features.add(Feature.URL)
    if capabilities.sampling is not None:
        features.add(Feature.SAMPLING)
    if capabilities.roots is not None:
        features.add(Feature.ROOTS)
    return frozenset(features)


class HostRequests:
    """The host of one tool call."""

    def __init__(self, context: Context[None, Any] | None) -> None:
        self._context = context

    @property
    def is_modern(self) -> bool:
        """True if the host speaks a protocol in which requests are answers."""
        request = self._request
        return request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def features(self) -> frozenset[Feature]:
        request = self._request
        if request is None or not (self.is_modern or request.session.can_send_request):
            return frozenset()
        return features_of(request.session.client_capabilities)

    @property
    def state(self) -> str | None:
        """State from an earlier answer with requests, if the host repeats its call."""
        return self._context.request_state if self._context is not None and self.is_modern else None

    @property
    def responses(self) -> Mapping[str, dict[str, Any]]:
        """The answers that come with a repeated call."""
        given = self._context.input_responses if self._context is not None else None
        return {key: _plain(response) for key, response in (given or {}).items()}

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        """Send a request of its own, for hosts up to 2025-11-25. Raises `InputRefused`: the host answered with an
        error."""
        context = self._request
        if context is None:
            raise InputRefused("there is no host that could be asked")
        typed = parse_server_request(request.method, context.protocol_version, dict(request.params))
        try:
            result = await context.session.send_request(
                typed,  # type: ignore[arg-type]
                _RESULTS.get(request.feature, types.ElicitResult),
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
        except MCPError as error:
            raise InputRefused(f"the host answered: {error.message[:200]}") from error
        except ValidationError:
            raise InputRefused("the host's answer is not valid") from None
        return _plain(result)

    async def report_progress(self, done: float, total: float | None, message: str) -> None:
        """Send one notification: the progress, which must grow; its final value if that is known; and a one-line
        message. A host that closed the stream in the meantime is no reason to end the program."""
        if self._context is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._context.report_progress(done, total, message)

    @property
    def _request(self) -> ServerRequestContext[Any, Any] | None:
        return None if self._context is None else self._context.request_context


def input_required(requests: Mapping[str, InputRequest], state: str) -> types.InputRequiredResult:
    """The answer of a tool call that asks the host for these."""
    plain = {key: {"method": one.method, "params": one.params} for key, one in requests.items()}
    return types.InputRequiredResult(input_requests=_REQUESTS.validate_python(plain), request_state=state)


def _plain(result: Any) -> dict[str, Any]:
    plain: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return plain
