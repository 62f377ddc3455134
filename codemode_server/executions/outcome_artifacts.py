"""Stores the value, the output and, after a failure, the results of calls of a program as artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.executions.artifacts import ArtifactStore, Item, NotStored
from codemode_server.executions.execution import Execution
from codemode_server.support.off_loop import is_large, run_large, run_sized

_OF_DRY_RUN = "nor is that of any dry run"
_LONG = 2_000
"""Characters; shorter output is always shown in full."""


async def store_outcome(execution: Execution, store: ArtifactStore) -> None:
    """Store the value and the output, in an ephemeral session only if long; after a failure the calls' results. Of a
    dry run only the plan is stored: later programs must not take placeholders for results."""
    outcome, redactor = execution.outcome, execution.caller.redactor
    keep = partial(_store, execution, store, _LONG if execution.session.is_ephemeral else 0)
    if execution.is_dry_run:
        execution.artifacts |= dict.fromkeys(("value", "stdout"), _OF_DRY_RUN)
        if (plan := execution.plan) is not None and plan.calls:
            content = {"calls": plan.calls, "unforeseen": plan.unforeseen}
            await run_large(_store, execution, store, 0, "plan", lambda: _json(content))
        return
    value, stdout = outcome.value, outcome.stdout
    if outcome.value_form != "none":
        await run_sized(is_large(value), keep, "value", lambda: _json(redactor.value(value)))
    if len(stdout) > _LONG:
        await run_sized(is_large(stdout), keep, "stdout", lambda: redactor.text(stdout).encode("utf-8", "replace"))
    if execution.status is ExecutionStatus.SUCCEEDED:
        return
    try:
        item = await execution.results.store_for(execution.owner, execution.execution_id)
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
    else:
        execution.artifacts |= {"calls": item} if item is not None else {}


def _store(execution: Execution, store: ArtifactStore, min_bytes: int, part: str, encode: Callable[[], bytes]) -> None:
    data = encode()
    if len(data) < min_bytes:
        return
    name = execution.execution_id if part == "value" else f"{execution.execution_id}/{part}"
    size = len(data)
    item = Item(name, "text", size, "text/plain") if part == "stdout" else Item(name, "json", size)
    try:
        execution.artifacts[part] = store.keep(execution.owner, item, data)
    except NotStored as error:
        execution.artifacts[part] = str(error)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
