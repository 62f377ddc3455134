"""Stores the value, the output and, after a failure, the results of calls of a program as artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import anyio.to_thread

from codemode_server.domain.executions import ExecutionStatus
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
    name = str(execution.execution_id)
    if execution.is_dry_run:
        execution.artifacts |= dict.fromkeys(("value", "stdout"), _OF_DRY_RUN)
        if (plan := execution.plan) is not None and plan.calls:
            content = {"calls": plan.calls, "unforeseen": plan.unforeseen}
            await _store(execution, "plan", f"{name}/plan", partial(_json, content), store)
        return
    value, stdout = outcome.value, outcome.stdout
    if outcome.value_form != "none":
        is_small = len(value) < LARGE_BYTES if isinstance(value, str) else not isinstance(value, list | dict)
        encode_value = partial(_masked_json, redactor, value)
        await _store(execution, "value", name, encode_value, store, min_bytes=min_bytes, is_small=is_small)
    if len(stdout) > _LONG:
        encode_stdout = partial(_masked_text, redactor, stdout)
        is_small = len(stdout) < LARGE_BYTES
        await _store(
            execution, "stdout", f"{name}/stdout", encode_stdout, store, min_bytes=min_bytes, is_small=is_small
        )
    if execution.status is ExecutionStatus.SUCCEEDED:
        return
    try:
        item = await execution.results.store_for(execution.owner, execution.execution_id)
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
    else:
        execution.artifacts |= {"calls": item} if item is not None else {}


async def _store(
    execution: Execution,
    part: Literal["value", "stdout", "plan"],
    name: str,
    encode: Callable[[], bytes],
    store: ArtifactStore,
    *,
    min_bytes: int = 0,
    is_small: bool = False,
) -> None:
    """`is_small`: encoding it takes less time than starting a thread would."""

    def keep() -> None:
        data = encode()
        if len(data) >= min_bytes:
            is_text = part == "stdout"
            item = Item(name, "text", len(data), "text/plain") if is_text else Item(name, "json", len(data))
            execution.artifacts[part] = store.keep(execution.owner, item, data)

    try:
        if is_small:
            keep()
        else:
            await anyio.to_thread.run_sync(keep)
    except NotStored as error:
        execution.artifacts[part] = str(error)


def _masked_json(redactor: Redactor, value: Any) -> bytes:
    return _json(redactor.value(value))


def _masked_text(redactor: Redactor, text: str) -> bytes:
    return redactor.text(text).encode("utf-8", "replace")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
