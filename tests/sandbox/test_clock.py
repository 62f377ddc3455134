"""Time of the program and time of its calls, counted apart on a clock that the test turns."""

from __future__ import annotations

from codemode_server.sandbox.clock import ProgramClock


class Hands:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_one_of_the_two_budgets_runs_at_a_time() -> None:
    hands = Hands()
    clock = ProgramClock(10, 50, hands)
    assert (clock.deadline, clock.spent_setting) == (110, "limits.wall_seconds")
    hands.now = 104
    clock.call_started()
    assert (clock.deadline, clock.spent_setting) == (154, "limits.upstream_seconds")
    hands.now = 120
    clock.call_ended()
    assert clock.deadline == 126
    hands.now = 121
    assert (clock.program_s, clock.upstream_s) == (5, 16)


def test_calls_that_overlap_count_once() -> None:
    hands = Hands()
    clock = ProgramClock(10, 50, hands)
    clock.call_started()
    hands.now = 110
    clock.call_started()
    hands.now = 120
    clock.call_ended()
    hands.now = 130
    clock.call_ended()
    hands.now = 131
    assert (clock.program_s, clock.upstream_s) == (1, 30)
