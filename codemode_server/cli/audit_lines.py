"""Rows of the audit as lines for a person and as JSON for scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from codemode_server.cli.terminal import line_width
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import RetryReason
from codemode_server.gateway.audit import AuditEvent, AuditEventKind, AuditRow
from codemode_server.text import one_line

_MAX_TEXT_CHARACTERS = 300
_MAX_PIPED_CHARACTERS = 400
"""Length of a line that goes to no terminal."""


class AuditLines:
    """Writes rows of one configuration: once more without its secrets, and as wide as the terminal."""

    def __init__(self, config: LiveConfig) -> None:
        self._redactor = config.redactor
        self._width = line_width() or _MAX_PIPED_CHARACTERS

    def line(self, row: AuditRow, *, with_number: bool = False) -> str:
        """`05:12:04 x7f3a9c21b04 call 1 github.get_issue: allow, rule 1 …`; with its number, also with its day."""
        event = row.event
        at = datetime.fromtimestamp(event.at, UTC).astimezone()
        time = f"{at:%Y-%m-%d %H:%M:%S %Z}" if with_number else f"{at:%H:%M:%S}"
        parts = [f"{row.number:>6}" if with_number else "", time, event.execution_id, self._what(event)]
        return one_line(" ".join(filter(None, parts)), max(40, self._width))

    def _what(self, event: AuditEvent) -> str:
        title = self._text(".".join(filter(None, (event.server, event.tool))))
        which = " ".join(filter(None, [f"call {event.seq}" if event.seq is not None else "", title]))
        reason, took = self._text(event.reason or ""), f"after {event.milliseconds or 0:,.0f} ms"
        ended = f"{event.status} {took}" + (f": {self._text(event.error)}" if event.error else "")
        match event.kind:
            case AuditEventKind.EXECUTION_STARTED | AuditEventKind.EXECUTION_RESUMED:
                what = event.kind.value.removeprefix("execution_")
                return f"{what} in {event.level or 'no sandbox'}" + (f": {reason}" if reason else "")
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

    def _text(self, text: str) -> str:
        return one_line(self._redactor.text(text), _MAX_TEXT_CHARACTERS)

    def json(self, row: AuditRow) -> dict[str, Any]:
        """All columns; of the payload what the configuration let be recorded."""
        event, mask = row.event, self._redactor.text
        texts = {
            name: None if (text := getattr(event, name)) is None else mask(text)
            for name in ("server", "tool", "decision", "reason", "status", "error", "payload", "level")
        }
        return {
            "number": row.number,
            "kind": event.kind.value,
            "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
            "session": event.session_id or None,
            "execution_id": event.execution_id or None,
            "call": event.seq,
            **texts,
            "milliseconds": event.milliseconds,
            "digest": row.digest,
        }
