"""When calls of a program count as one turn of a model that makes them itself. The events are those of the pipeline."""

from __future__ import annotations

from codemode_server.gateway.direct_tokens import begin
from codemode_server.gateway.execution_calls import DirectEstimate

ISSUES, CHANNEL = ("github", "list_issues"), ("slack", "read_channel")


def turns_of(*steps: tuple[int, tuple[str, str]] | int) -> int:
    """A pair begins a call with this number, a number ends it."""
    direct = DirectEstimate()
    for step in steps:
        if isinstance(step, int):
            direct.in_flight.discard(step)
        else:
            begin(direct, *step)
    return direct.turns


def test_a_program_without_calls_has_no_turn() -> None:
    assert turns_of() == 0


def test_calls_of_one_tool_after_each_other_are_one_turn() -> None:
    assert turns_of((1, ISSUES), 1, (2, ISSUES), 2) == 1


def test_calls_of_different_tools_after_each_other_are_a_turn_each() -> None:
    assert turns_of((1, ISSUES), 1, (2, CHANNEL), 2, (3, ISSUES), 3) == 3


def test_calls_of_different_tools_at_once_are_one_turn() -> None:
    assert turns_of((1, ISSUES), (2, CHANNEL), 1, 2) == 1
