"""The statements of the journal, built once. Parameters `of_…` say which row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, bindparam, case, func, insert, null, select, update

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.storage.journal_values import CALL_COLUMNS, CALL_VALUES, Values
from codemode_server.storage.tables import calls, executions

_OWN = (executions.c.principal == bindparam("of_principal"), executions.c.execution_id == bindparam("of_execution"))
_ONE_CALL = (calls.c.execution_id == bindparam("of_execution"), calls.c.seq == bindparam("of_seq"))
BEGIN_EXECUTION = insert(executions)
SELECT_EXECUTION = select(executions).where(*_OWN)
SELECT_APPLYING = select(executions).where(
    executions.c.principal == bindparam("of_principal"), executions.c.applies == bindparam("of_execution")
)
APPLIED_BY = SELECT_APPLYING.with_only_columns(executions.c.execution_id)
REOPEN = update(executions).where(
    *_OWN,
    executions.c.session_id == bindparam("of_session"),
    executions.c.ended_at.is_not(None),
    executions.c.status != ExecutionStatus.SUCCEEDED,
    executions.c.seed.is_not(None),
)
_IS_OF_OWNER = executions.c.owner.is_not_distinct_from(bindparam("of_owner"))
END_EXECUTION = (
    update(executions)
    .where(
        executions.c.execution_id == bindparam("of_execution"),
        executions.c.ended_at.is_(None),
        _IS_OF_OWNER,  # not one that counted as interrupted and goes on in another process
    )
    .values(
        milliseconds=func.coalesce(executions.c.milliseconds, 0) + bindparam("took"),
        calls=select(func.count()).where(calls.c.execution_id == bindparam("of_execution")).scalar_subquery(),
    )
)
NOTE_ANSWER = (
    update(executions)
    # Not one whose values were removed meanwhile.
    .where(
        executions.c.execution_id == bindparam("of_execution"),
        executions.c.value_bytes.is_not(None) | executions.c.ended_at.is_(None),
    )
    .values(value_bytes=executions.c.value_bytes + bindparam("added"))
)
ASK_TO_CANCEL = update(executions).where(*_OWN, executions.c.ended_at.is_(None))
IS_CANCELLED = select(executions.c.cancel_asked_at).where(executions.c.execution_id == bindparam("of_execution"))
SEED = select(executions.c.seed).where(*_OWN, executions.c.seed.is_not(None))
END_CALL = update(calls).where(
    *_ONE_CALL,
    calls.c.status == CallStatus.STARTED,
    select(executions.c.execution_id)
    .where(
        executions.c.execution_id == calls.c.execution_id,
        # Not a call with the same number of another process, where the execution goes on since it was interrupted.
        _IS_OF_OWNER,
        # Nor one that ended before another process interrupted it, which has signed the call without an outcome.
        executions.c.ended_at.is_(None) | (executions.c.ended_at < bindparam("at")),
    )
    .exists(),
)
_IS_OWN = select(executions.c.execution_id).where(*_OWN).exists()
_SMALL_BYTES = 4_096
_READ: dict[Values, tuple[ColumnElement[Any], ...]] = {
    "all": CALL_VALUES,
    "small": tuple(
        case((func.length(it) <= _SMALL_BYTES, it)).label(it.name) if it.name in ("arguments", "error") else null()
        for it in CALL_VALUES
    ),
    "none": (),
}
SELECT_CALLS: dict[Values, Select[*tuple[Any, ...]]] = {
    values: select(*CALL_COLUMNS, *columns)
    .where(
        calls.c.execution_id == bindparam("of_execution"),
        calls.c.seq > bindparam("after"),
        _IS_OWN,
    )
    .order_by(calls.c.seq)
    .limit(bindparam("most", type_=Integer))
    for values, columns in _READ.items()
}
