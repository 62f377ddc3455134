"""The calls that a program is expected to make, since it ran before or its dry run did: what the calls of an execution
know of them, and how two such calls are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

import anyio

from codemode_server.domain.calls import Ask, CallKey, Decision, ToolCall
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.text import first_few

MIN_PATIENCE_SECONDS = 1.0
"""The least time that a program gets to make an expected call."""
_MAX_NAMES = 3
_MISSING = object()
_MAX_EXCERPT = 200
_BEFORE_DIFFERENCE = 30
T = TypeVar("T")


class ExpectedCalls(Protocol):
    async def departure(self, call: ToolCall, has_others: Callable[[], bool], /) -> Ask | None:
        """Approval needed for a call that may change something; None if it is as expected. `has_others` tells whether
        other calls of the program are in flight."""

    def remarks(self) -> list[str]:
        """Lines for the model at the end of the run."""


class PlannedCalls(ExpectedCalls, Protocol):
    """The plan of a dry run that is applied."""

    def take_replayed(self, call: ToolCall, /) -> None:
        """The applied program made this call before it was resumed."""


class AnswerTurns(Protocol):
    """The order in which answers arrive again."""

    def note_made(self, key: CallKey, /) -> None: ...
    async def wait(self, key: CallKey, /) -> None:
        """Wait until it is this call's turn to be answered."""

    def note_answered(self, key: CallKey, /) -> None: ...


class EarlierCalls(ExpectedCalls, Protocol):
    """The calls of the earlier run of a program that runs again."""

    is_closed: bool
    """True if nothing is sent: a call without a record fails."""
    last_seq: int
    """The highest number of a recorded call."""
    unanswered: dict[int, int]
    """Numbers of the calls that an earlier run sent without an answer → their numbers in that run."""

    waiting: Collection[CallKey]
    """Recorded calls that a person was asked about and that were not sent."""

    @property
    def order(self) -> AnswerTurns: ...
    def decision(self, call: ToolCall, effect: Effect, decided: Decision, /) -> Decision:
        """The decision on a call of the program, where `decided` is that of the policy."""


async def left_when_quiet(
    left: Callable[[], list[T]],
    *,
    changed: ChangeSignal,
    patience_s: Callable[[], float],
    has_others: Callable[[], bool],
) -> list[T]:
    """Waits for the expected calls; returns those left once nothing has changed for `patience_s` and `has_others` says
    that no other call is in flight."""
    while left():
        with anyio.move_on_after(patience_s()) as quiet:
            await changed.wait()
        if quiet.cancelled_caught and not has_others():
            break
    return left()


def named(calls: Iterable[ToolCall]) -> str:
    """`call 1 (github/create_issue), …`."""
    return first_few([f"call {it.seq} ({it.server}/{it.tool})" for it in calls], _MAX_NAMES)


Arguments = Mapping[str, JsonValue]


def differing_names(before: Arguments, now: Arguments) -> list[str]:
    """The arguments of either call that the other one has not, or has with another value."""
    return [it for it in dict.fromkeys([*before, *now]) if before.get(it, _MISSING) != now.get(it, _MISSING)]


def common_names(before: Arguments, now: Arguments) -> int:
    """How many arguments both calls have with the same value."""
    return sum(now.get(name, _MISSING) == value for name, value in before.items())


def argument_differences(before: Arguments, now: Arguments, redact: Callable[[str], str]) -> list[str]:
    """A line `- name: …` and a line `+ name: …` for each argument that differs, from where it begins to differ.
    `redact` masks secrets, before anything is cut."""
    lines: list[str] = []
    for name in differing_names(before, now):
        one, other = (redact(_text(it.get(name, _MISSING))) for it in (before, now))
        if one != other:
            lines += [f"- {name}: {_excerpt(one, other)}", f"+ {name}: {_excerpt(other, one)}"]
    return lines


def _text(value: object) -> str:
    return "(not given)" if value is _MISSING else json.dumps(value, ensure_ascii=False, default=str)


def _excerpt(text: str, other: str) -> str:
    first = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(other))
    start = max(0, min(first, len(text)) - _BEFORE_DIFFERENCE)
    shown = text[start : start + _MAX_EXCERPT]
    return f"{'…' if start else ''}{shown}{'…' if start + _MAX_EXCERPT < len(text) else ''}"
