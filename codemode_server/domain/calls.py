"""A call to a tool as a value, with its decision and its outcome. No I/O."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple

from codemode_server.domain.ids import ExecutionId, JsonValue


class CallStatus(StrEnum):
    """The call is …"""

    STARTED = "started"  # in the journal; if never ended, its outcome is unknown
    SUCCEEDED = "succeeded"  # answered
    FAILED = "failed"  # answered with an error of the upstream's own
    REFUSED = "refused"  # refused by the permissions; nothing was sent
    INVALID = "invalid"  # stopped by its schema, a limit or an internal error, or not recorded; nothing was sent
    UNAVAILABLE = "unavailable"  # the upstream was not connected; nothing was sent
    TIMED_OUT = "timed_out"  # sent and not answered in time; the outcome is unknown
    UNKNOWN = "unknown"  # sent, and the connection ended before the answer; the outcome is unknown
    CANCELLED = "cancelled"  # the program ended before the answer; the outcome is unknown
    UNSENT = "not_sent"  # allowed, and the program ended before it was sent
    CAPTURED = "simulated"  # answered with a placeholder in a dry run; nothing was sent

    @property
    def may_have_been_sent(self) -> bool:
        """True if a call with this status may have reached its upstream."""
        return self not in _NOTHING_SENT


_NOTHING_SENT = (
    CallStatus.REFUSED,
    CallStatus.INVALID,
    CallStatus.UNAVAILABLE,
    CallStatus.UNSENT,
    CallStatus.CAPTURED,
)


class RetryReason(StrEnum):
    """Why a call was tried again. The upstream had not carried it out before."""

    EXPIRED_SESSION = "expired_session"  # the upstream no longer knew the session
    SIGN_IN = "sign_in"  # the person signed in meanwhile

    @property
    def words(self) -> str:
        """`tried again after an expired session`."""
        article = "a" if self is RetryReason.SIGN_IN else "an"
        name = "sign-in" if self is RetryReason.SIGN_IN else self.value.replace("_", " ")
        return f"tried again after {article} {name}"


ANY = "*"


class ResultKey(NamedTuple):
    """A key of some dict in a tool's result; without a key any result of the tool, or of `ANY` tool. Without a tool the
    server itself, which is not ready yet."""

    server: str
    tool: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies a call of a program when it runs again. It does not depend on the order in which concurrent calls
    arrive; the sequence number of a call does."""

    server: str
    tool: str
    arguments_digest: str
    """SHA-256 of the canonical JSON of the arguments, hexadecimal; see `arguments_digest`."""
    occurrence: int
    """1 for the first call of the execution with this server, tool and arguments, then 2, 3 …"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    execution_id: ExecutionId
    seq: int
    """1, 2, 3 … within its execution, in the order in which the program sent them."""
    server: str
    tool: str
    """Raw names, as the upstream has them."""
    arguments: dict[str, Any]
    key: CallKey


@dataclass(frozen=True, slots=True)
class Allow:
    kind: ClassVar[str] = "allow"
    reason: str


@dataclass(frozen=True, slots=True)
class Deny:
    kind: ClassVar[str] = "deny"
    reason: str
    advice: str = "Do not try again; tell the user."
    """Instruction for the model; empty if the reason says it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to approve the call first."""

    kind: ClassVar[str] = "ask"
    reason: str
    details: tuple[str, ...] = ()
    """More lines for the person, which neither the program nor the records get."""
    is_unanswered: bool = False
    """True if an earlier run sent the call and got no answer: the person may also say that it arrived."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An earlier run of the execution made this call; its outcome is used again and nothing is sent."""

    kind: ClassVar[str] = "replay"
    outcome: CallOutcome
    reason: str
    seq: int = 0
    """Number of the call in that run; 0 if it is not known."""
    is_assumed: bool = False
    """True if that run got no answer, and the call is taken as one that arrived."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A dry run: nothing is sent, and the program gets a placeholder of the result's type."""

    kind: ClassVar[str] = "simulate"
    result_type: str
    reason: str
    asks: str = ""
    """Why a person would be asked to approve the call; empty if nobody would."""
    is_reading: bool = False
    """True if it only reads, and its arguments could not be foreseen."""


ApprovalDecision = Allow | Deny | Recorded
"""The decision after a question to a person; `Recorded`: the attempt of an earlier run arrived."""
Decision = Allow | Deny | Ask | Recorded | Capture
"""The decision on a call, always with a reason; `kind` is its name in records, traces and permission rules."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    status: CallStatus
    milliseconds: float
    result_bytes: int = 0
    result: JsonValue = None
    """The result as the program received it, in `encoding`; None if the program received an error."""
    error: str | None = None
    """Error message without secrets; None if the call succeeded."""
    encoding: Literal["json", "blocks"] = "json"
    """See `sandbox.contract.Reply`."""


def arguments_digest(arguments: dict[str, Any]) -> str:
    """SHA-256 of the arguments as JSON with sorted keys and without white space, hexadecimal."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
