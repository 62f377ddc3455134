"""The journal's values for decisions."""

from __future__ import annotations

from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Capture, Decision, Deny, Replay
from codemode_server.domain.ids import JsonValue


def detail_of(decision: Decision) -> JsonValue:
    """What a decision contains beside its reason."""
    match decision:
        case Replay(outcome=it):
            return {
                "status": it.status.value,
                "milliseconds": it.milliseconds,
                "result_bytes": it.result_bytes,
                "result": it.result,
                "error": it.error,
                "encoding": it.encoding,
            }
        case Capture(result_type=result_type, asks=asks, is_reading=is_reading):
            return {"result_type": result_type, "asks": asks, "is_reading": is_reading}
        case _:
            return None


def to_decision(name: str, reason: str, detail: JsonValue) -> Decision:
    """The decision of a stored kind, reason and detail."""
    match name:
        case "allow":
            return Allow(reason)
        case "ask":
            return Ask(reason)
        case "replay" if isinstance(detail, dict):
            return Replay(CallOutcome(**detail | {"status": CallStatus(detail["status"])}), reason)
        case "simulate" if isinstance(detail, dict):
            return Capture(reason=reason, **detail)
        case _:
            return Deny(reason)
