"""What a call asks of an upstream, whatever its kind, how far it got, and what is told of its end. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Server
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import (
    CallError,
    CallRefused,
    CallTimedOut,
    InvalidArguments,
    ToolFailed,
    ToolNotCallable,
    UpstreamUnavailable,
)
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.gateway.policy import Verdict
from codemode_server.redaction import Redactor
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.unmarked_errors import unmarked_error

_STATUS: tuple[tuple[type[CallError], CallStatus], ...] = (
    (CallRefused, CallStatus.REFUSED),
    (ToolNotCallable, CallStatus.INVALID),
    (InvalidArguments, CallStatus.INVALID),
    (UpstreamUnavailable, CallStatus.UNAVAILABLE),
    (CallTimedOut, CallStatus.TIMED_OUT),
    (ToolFailed, CallStatus.FAILED),
)


def no_failure(value: JsonValue) -> None:
    """For answers that are never errors: those are raised."""
    return


def error_text_of(reply: Reply, redactor: Redactor) -> str | None:
    """The error that a normal result consists of, if it is one; masked, since it is cut."""
    return unmarked_error(reply.value, redactor) if reply.encoding == "json" else None


def no_error_text(reply: Reply, redactor: Redactor) -> None:
    """For answers that are not read for texts of errors."""
    return


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing to ask of an upstream."""

    server: Server
    raw_name: str
    """As the record has it."""
    name: str
    """As programs, rules and reports have it."""
    alone: str
    """See `policy.Names`."""
    effect: Effect
    arguments: dict[str, Any]
    check: Callable[[], object]
    """Raises `InvalidArguments` or `ToolNotCallable` if the call must not be sent."""
    send: Callable[[CallProgress], Awaitable[Reply]]
    """Sends it; what the upstream reports meanwhile is written to the argument."""
    failure: Callable[[JsonValue], str | None] = no_failure
    """The error that an answer tells of, if it is handed on all the same."""
    error_text: Callable[[Reply, Redactor], str | None] = no_error_text
    """See `error_text_of`."""


@dataclass(slots=True)
class Sent:
    """How far a call got."""

    seq: int
    errand: Errand
    started_at: float
    is_recorded: bool = False


def status_of(error: CallError) -> CallStatus:
    """How a call ended that raised this."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), CallStatus.FAILED)


def refusal(called: str, verdict: Verdict) -> str:
    """What the program is told of a verdict that lets nothing through."""
    if verdict.answer == "ask":
        return (
            f"{called} needs a person's approval, and asking for it is not possible yet, "
            f"so the call was refused ({verdict.reason}). Do not try again; tell the user."
        )
    return f"{called} is not permitted: {verdict.reason.rstrip('.')}. Do not try again; tell the user."


def uris(blocks: JsonValue) -> list[str]:
    """The URIs of the links and embedded resources in a reply's blocks, in order."""
    files = [file for block in blocks for file in (block, *block.get("beside", {}).get("files", ()))]
    return [file["uri"] for file in files if file["type"] == "file" and isinstance(file["uri"], str)]
