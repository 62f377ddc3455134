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
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import parse_server_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest

_RESULTS: dict[Feature | None, Any] = {
    Feature.SAMPLING: types.CreateMessageResult,
    Feature.ROOTS: types.ListRootsResult,
}
NO_FEATURES = frozenset[Feature]()


def features_of(capabilities: types.ClientCapabilities | None) -> frozenset[Feature]:
    """The features that a host has declared."""
    if capabilities is None:
        return NO_FEATURES
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
    def __init__(
        self,
        request: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams | None = None,
        address: str = "",
    ) -> None:
        """`params` are those of a tool call; other requests are not repeated. `address`: that of this replica."""
        self._request, self.address = request, address
        self.is_modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        """True if the host speaks a protocol in which requests are answers."""
        self.state = params.request_state if params is not None and self.is_modern else None
        """State from an earlier answer with requests, if the host repeats its call."""
        self._responses = params.input_responses if params is not None else None

    @property
    def features(self) -> frozenset[Feature]:
        session = self._request.session
        return features_of(session.client_capabilities) if self.is_modern or session.can_send_request else NO_FEATURES

    @property
    def responses(self) -> Mapping[str, dict[str, Any]]:
        """The answers that come with a repeated call."""
        return {key: _plain(response) for key, response in (self._responses or {}).items()}

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        """Send a request of its own, for hosts up to 2025-11-25. Raises `InputRefused`: the host answered with an
        error."""
        context = self._request
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
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._request.session.report_progress(done, total, message)


def _plain(result: Any) -> dict[str, Any]:
    plain: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return plain
