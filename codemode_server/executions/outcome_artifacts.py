"""Stores the value, the output and, after a failure, the results of calls of a program as artifacts."""

from __future__ import annotations

import json
from typing import Literal

import anyio.to_thread

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import JsonValue
from codemode_server.executions.artifacts import LARGE_BYTES, ArtifactStore, NotStored
from codemode_server.executions.execution import Execution
from codemode_server.executions.stored_items import Item
from codemode_server.redaction import Redactor

_OF_DRY_RUN = "nor is that of any dry run"
_LONG = 2_000
"""Characters; shorter output is always shown in full."""


async def store_outcome(execution: Execution, store: ArtifactStore, redactor: Redactor) -> None:
    """Store the value and the output, in an ephemeral session only if long; after a failure the calls' results. Of a
    dry run only the plan is stored: later programs must not take placeholders for results."""
    outcome, min_bytes = execution.outcome, _LONG if execution.session.is_ephemeral else 0
    if execution.is_dry_run:
        execution.artifacts |= dict.fromkeys(("value", "stdout"), _OF_DRY_RUN)
        await _store_plan(execution, store)
        return
    if outcome.value_form != "none":
        await _store(execution, "value", outcome.value, min_bytes, store, redactor)
    if len(outcome.stdout) > _LONG:
        await _store(execution, "stdout", outcome.stdout, min_bytes, store, redactor)
    if execution.status is ExecutionStatus.SUCCEEDED:
        return
    try:
        item = await execution.results.store_for(execution.owner, execution.execution_id)
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
    else:
        execution.artifacts |= {"calls": item} if item is not None else {}


async def _store_plan(execution: Execution, store: ArtifactStore) -> None:
    plan = execution.plan
    if plan is None or not plan.calls:
        return

    def keep() -> Item:
        content = {"calls": plan.calls, "unforeseen": plan.unforeseen}
        data = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
        return store.keep(execution.owner, Item(f"{execution.execution_id}/plan", "json", len(data)), data)

    try:
        execution.artifacts["plan"] = await anyio.to_thread.run_sync(keep)
    except NotStored as error:
        execution.artifacts["plan"] = str(error)


async def _store(
    execution: Execution,
    part: Literal["value", "stdout"],
    value: JsonValue,
    min_bytes: int,
    store: ArtifactStore,
    redactor: Redactor,
) -> None:
    owner, name = execution.owner, str(execution.execution_id)

    def keep() -> None:
        if part == "value":
            data = json.dumps(redactor.value(value), ensure_ascii=False).encode("utf-8", "replace")
            item = Item(name, "json", len(data))
        else:
            data = redactor.text(value).encode("utf-8", "replace")
            item = Item(f"{name}/stdout", "text", len(data), "text/plain")
        if len(data) >= min_bytes:
            execution.artifacts[part] = store.keep(owner, item, data)

    try:
        if _is_small(value):
            keep()
        else:
            await anyio.to_thread.run_sync(keep)
    except NotStored as error:
        execution.artifacts[part] = str(error)


def _is_small(value: JsonValue) -> bool:
    """True if writing it takes less time than starting a thread would."""
    return len(value) < LARGE_BYTES if isinstance(value, str) else not isinstance(value, list | dict)
