"""Answers `completion/complete` for the arguments of our prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CompleteRequestParams, CompleteResult, PromptReference
from mcp.types import Completion as McpCompletion

from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.principals import Session
from codemode_server.gateway.completions import Completion


class CompletesPrompts(Protocol):
    """What knows the prompts."""

    async def complete_prompt(
        self, name: str, argument: dict[str, str], known: dict[str, str], session: Session
    ) -> Completion:
        """As `front.server.MetaTools.complete_prompt`."""


class PromptCompletion:
    """The handler of the request."""

    def __init__(
        self,
        prompts: Callable[[], Awaitable[CompletesPrompts]],
        session_of: Callable[[ServerRequestContext[Any, Any]], Session],
    ) -> None:
        self._prompts = prompts
        self._session_of = session_of

    async def __call__(self, context: ServerRequestContext[Any, Any], params: CompleteRequestParams) -> CompleteResult:
        if not isinstance(params.ref, PromptReference):
            raise MCPError(INVALID_PARAMS, "only arguments of prompts are completed; there are no resource templates")
        known = params.context.arguments if params.context is not None else None
        argument = {"name": params.argument.name, "value": params.argument.value}
        try:
            session = self._session_of(context)
            found = await (await self._prompts()).complete_prompt(params.ref.name, argument, known or {}, session)
        except CodemodeError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        completion = McpCompletion(values=list(found.values), total=found.total, has_more=found.has_more)
        return CompleteResult(completion=completion)
