"""What the rows of the audit say, for the command `audit` and its page."""

from __future__ import annotations

from math import inf, nextafter

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.domain.calls import RetryReason
from codemode_server.records.executions import Records
from codemode_server.records.reports import Column, Report, ReportPage, Row
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import one_line

_MAX_TEXT_CHARACTERS = 300
_MAX_SHOWN = 200


def what_happened(event: AuditEvent, redactor: Redactor) -> str:
    """`call 1 github.get_issue: allow, rule 1 …`, without the secrets of the configuration."""

    def masked(text: str) -> str:
        return one_line(redactor.text(text), _MAX_TEXT_CHARACTERS)

    title = masked(".".join(filter(None, (event.server, event.tool))))
    which = " ".join(filter(None, [f"call {event.seq}" if event.seq is not None else "", title]))
    reason = masked(event.reason or "")
    took = "" if event.milliseconds is None else f" after {event.milliseconds:,.0f} ms"
    ended = f"{event.status}{took}" + (f": {masked(event.error)}" if event.error else "")
    match event.kind:
        case AuditEventKind.EXECUTION_STARTED:
            return f"started in {event.level or 'no sandbox'}" + (f": {reason}" if reason else "")
        case AuditEventKind.EXECUTION_RESUMED:
            return "resumed"
        case AuditEventKind.EXECUTION_ENDED:
            return ended
        case AuditEventKind.CALL_DECIDED:
            return f"{which}: {event.decision}, {reason}"
        case AuditEventKind.CALL_RETRIED if event.reason in set(RetryReason):
            return f"{which}: {RetryReason(event.reason).words}"
        case AuditEventKind.CALL_ENDED:
            return f"{which}: {ended}"
        case _:
            words = event.kind.value.replace("_", " ")
            return ": ".join(filter(None, (which, words, reason)))


async def _read(records: Records, before: str) -> Report:
    try:
        until = float(before or inf)
    except ValueError:
        until = inf
    rows = await records.audit.rows(records.principal, until=until, limit=_MAX_SHOWN)
    # Rows of the same moment as the oldest here may be on the next page twice, rather than on none.
    older = repr(nextafter(rows[0].event.at, inf)) if len(rows) == _MAX_SHOWN else ""
    redactor = records.config.redactor
    shown = [
        Row((it.event.at, it.event.execution_id or None, what_happened(it.event, redactor))) for it in reversed(rows)
    ]
    return Report(shown, older=older)


AUDIT = ReportPage(
    name="audit",
    title="Audit",
    columns=(Column("Time", "moment"), Column("Execution", "execution"), Column("What")),
    read=_read,
    empty="Nothing has happened yet. Each program, call, decision and answer of yours gets a row here.",
    is_live=True,
)
