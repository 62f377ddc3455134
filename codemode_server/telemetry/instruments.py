"""Every metric of the product: its name, unit and labels, in one place.

Labels have few values: names of servers as the configuration has them, and closed sets of words. Names of tools are
added only with `metrics.tools`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_CALL_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_EXECUTION_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    description: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    bounds: tuple[float, ...] = ()
    """Bucket bounds of a histogram."""


EXECUTIONS = Instrument(
    "codemode.executions", "counter", "Executions that have ended, programs and direct calls.", ("kind", "status")
)
EXECUTION_SECONDS = Instrument(
    "codemode.execution.duration",
    "histogram",
    "Time from the turn of an execution, or the wait for it, to its end.",
    ("kind",),
    "s",
    _EXECUTION_SECONDS,
)
CALLS = Instrument(
    "codemode.calls", "counter", "Calls that have ended, sent or not.", ("server", "decision", "status", "tool")
)
CALL_SECONDS = Instrument(
    "codemode.call.duration",
    "histogram",
    "Time from a call to its outcome, with checks and the wait for a person.",
    ("server", "tool"),
    "s",
    _CALL_SECONDS,
)
CALL_RETRIES = Instrument(
    "codemode.call.retries", "counter", "Times that a call was tried again.", ("server", "reason")
)
WAITING = Instrument("codemode.executions.queued", "gauge", "Executions that wait for a place.")
RUNNING = Instrument("codemode.executions.running", "gauge", "Executions that have a place.")
PLACES = Instrument("codemode.executions.places", "gauge", "Executions that may run at once (limits.programs).")
APPROVALS = Instrument("codemode.approvals.waiting", "gauge", "Calls that wait for an answer of a person.")
SANDBOXES = Instrument("codemode.sandboxes", "gauge", "Sandboxes by what they do: idle or busy.", ("state",))
LEVEL = Instrument("codemode.sandbox.level", "gauge", "1 for the isolation that programs run in.", ("level",))
UPSTREAMS = Instrument("codemode.upstream.state", "gauge", "1 for the state that a server is in.", ("server", "state"))
INSTRUMENTS = (
    *(EXECUTIONS, EXECUTION_SECONDS, CALLS, CALL_SECONDS, CALL_RETRIES, WAITING, RUNNING, PLACES, APPROVALS),
    *(SANDBOXES, LEVEL, UPSTREAMS),
)
