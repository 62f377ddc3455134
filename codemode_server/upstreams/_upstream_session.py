"""mcp's session with an upstream: declares what the host can answer, and passes on what the upstream asks.

Uses private parts of mcp 2.3, and imports mcp; `_link` imports this module when the first session is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.off_loop import is_large

OnInput = Callable[[InputRequest], Awaitable[dict[str, Any]]]
_TASKS = "io.modelcontextprotocol/tasks"
_RESULT: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)


def client_capabilities(features: frozenset[Feature], *, has_tasks: bool = False) -> types.ClientCapabilities:
    """Capabilities declared to an upstream for these features, in either protocol; `has_tasks`: that of 2026-07-28."""
    elicitation = types.ElicitationCapability(
        form=types.FormElicitationCapability() if Feature.ELICITATION in features else None,
        url=types.UrlElicitationCapability() if Feature.URL in features else None,
    )
    return types.ClientCapabilities(
        elicitation=elicitation if features & {Feature.ELICITATION, Feature.URL} else None,
        sampling=types.SamplingCapability() if Feature.SAMPLING in features else None,
        roots=types.RootsCapability() if Feature.ROOTS in features else None,
        extensions={_TASKS: {}} if has_tasks else None,
    )


class UpstreamSession(ClientSession):
    """Answers requests of the upstream by `on_input`."""

    def __init__(self, *, features: frozenset[Feature], on_input: OnInput, **rest: Any) -> None:
        super().__init__(**rest)
        self._features = features
        self._on_input = on_input

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return client_capabilities(self._features, has_tasks=version in MODERN_PROTOCOL_VERSIONS)

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if is_large(params):  # mcp would validate it on the event loop
            raise MCPError(types.INVALID_PARAMS, "the request is too large")
        return await super()._on_request(dctx, method, params)

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            answer = await self._on_input(InputRequest(request.method, data.get("params") or {}))
            return _RESULT.validate_python(answer)
        except InputRefused as refusal:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(refusal))
        except ValidationError:
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the host's answer is not valid")
