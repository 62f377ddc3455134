"""Counts the tokens of each exchange, and what direct calls in place of a program would have cost.

An exchange is one call of a meta-tool or a direct tool by the host. Counting the definitions of all tools takes long
the first time, so it is done in a thread, and exchanges are stored in the background. Nothing here stops an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread

from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.savings import Exchange, ServerTokens, saved_text
from codemode_server.domain.tools import definition_text
from codemode_server.executions.execution import Execution
from codemode_server.features.savings.savings_store import record_exchange
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.shortening import as_text
from codemode_server.mcp_server.tools.registry import Answer
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.support.background_tasks import OwnsTasks
from codemode_server.support.tokens import estimate_tokens

_MAX_REMEMBERED = 8
"""Lists of definitions whose tokens are remembered."""


class Exchanges(OwnsTasks):
    """Takes the answers of one product on their way to the host."""

    def __init__(self, thread: DatabaseThread, catalog: Callable[[], Catalog], config: LiveConfig) -> None:
        self._thread = thread
        self._catalog = catalog
        self._config = config
        self._counting = anyio.Lock()
        self._counted: tuple[Catalog | None, int] = None, 0
        self._offered: list[tuple[list[dict[str, Any]], int]] = []
        """Lists that were given to hosts, and their tokens; the latest last."""

    async def take(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        answer: Answer,
        caller: Caller,
        offered: list[dict[str, Any]],
    ) -> Answer:
        """Record an answer. Gives it back, with the line on what it saved if that is switched on. `offered`: the
        definitions that the host of the session has."""
        if answer.input_requests:  # the host repeats its call, and the model reads nothing
            return answer
        if not self._config.settings.results.savings or answer.execution is None:
            if self._tasks is not None:
                self._tasks.start_soon(self._record, tool, arguments, answer, caller, offered)
            return answer
        exchange = await self._record(tool, arguments, answer, caller, offered)
        line = saved_text(exchange.usage)
        content = {**answer.content, "savings": line} if answer.content else answer.content
        return replace(answer, text=f"{answer.text}\n[{line}]" if answer.text else f"[{line}]", content=content)

    async def _record(
        self, tool: str, arguments: Mapping[str, Any], answer: Answer, caller: Caller, offered: list[dict[str, Any]]
    ) -> Exchange:
        execution = answer.execution
        exchange = Exchange(
            principal=caller.principal,
            at=time.time(),
            tool=tool,
            execution_id=execution.execution_id if execution is not None else None,
            sent=estimate_tokens("\n".join(f"{name}: {value}" for name, value in arguments.items())),
            returned=estimate_tokens(_text_of(answer)),
            own_definitions=self._own_tokens(offered),
        )
        if execution is not None and _stands_for_direct_calls(execution):
            exchange = _with_direct_calls(exchange, execution)
        with anyio.CancelScope(shield=True):  # also if the product is ending
            if exchange.turns:
                exchange = replace(exchange, all_definitions=await self._all_tokens())
            record_exchange(self._thread, exchange)
        return exchange

    async def _all_tokens(self) -> int:
        async with self._counting:
            catalog = self._catalog()
            if self._counted[0] is not catalog:
                self._counted = catalog, await anyio.to_thread.run_sync(_tokens_of, catalog)
            return self._counted[1]

    def _own_tokens(self, offered: list[dict[str, Any]]) -> int:
        for known, tokens in self._offered:
            if known is offered:
                return tokens
        shown = [{name: it[name] for name in ("name", "description", "inputSchema") if name in it} for it in offered]
        tokens = sum(estimate_tokens(as_text(it)) for it in shown) + estimate_tokens(INSTRUCTIONS)
        self._offered = [*self._offered[1 - _MAX_REMEMBERED :], (offered, tokens)]
        return tokens


def _tokens_of(catalog: Catalog) -> int:
    return sum(estimate_tokens(definition_text(tool.definition)) for server in catalog.servers for tool in server.tools)


def _stands_for_direct_calls(execution: Execution) -> bool:
    """True if a model would have made its calls directly. A program that failed is usually run again, corrected, so
    that its calls would count twice."""
    if execution.direct_call is not None:
        return execution.done.is_set()
    return execution.status is ExecutionStatus.SUCCEEDED and not execution.is_dry_run


def _with_direct_calls(exchange: Exchange, execution: Execution) -> Exchange:
    if execution.direct_call is not None:  # it is what it stands for
        same = ServerTokens(1, exchange.sent, exchange.returned)
        return replace(exchange, turns=1, servers={execution.direct_call.server: same})
    direct = execution.calls.direct
    return replace(exchange, turns=direct.turns, servers=dict(direct.servers))


def _text_of(answer: Answer) -> str:
    parts = [part for block in answer.blocks for part in (block, block.get("resource", {}))]
    return "\n".join(filter(None, [answer.text, *(part.get("text") for part in parts)]))
