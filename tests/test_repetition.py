"""The record of a program's clock readings as a value: its pieces, its text and its bounds."""

from __future__ import annotations

import pytest

from codemode_server.domain.repetition import (
    MAX_READINGS,
    SEED_BYTES,
    ClockLog,
    ClockPiece,
    ClockRecord,
    Repeat,
    deltas,
    from_deltas,
    joined,
)

NOW = 1_790_000_000_000_000_000


def test_a_new_program_has_a_seed_of_its_own_and_no_record() -> None:
    one, other = Repeat.new(), Repeat.new()
    assert len(one.seed) == SEED_BYTES
    assert one.seed != other.seed
    assert one.clock is None


def test_a_seed_is_in_no_repr() -> None:
    assert "seed" not in repr(Repeat(b"secret"))


@pytest.mark.parametrize("readings", [(), (0,), (NOW, NOW + 5, NOW + 5, NOW - 1)])
def test_readings_are_the_same_after_they_were_text(readings: tuple[int, ...]) -> None:
    assert from_deltas(deltas(readings)) == readings


def test_the_text_of_readings_is_short() -> None:
    assert deltas([NOW, NOW + 1_000, NOW + 900]) == f"{NOW},1000,-100"


@pytest.mark.parametrize(
    "text", ["1,", ",1", "1 ", "1.5", "x", "-1", "5,-6", "9" * 20, "9" * 19, "1_0", "\u0661", "1\n"]
)
def test_text_that_holds_no_readings_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="clock"):
        from_deltas(text)


def test_text_with_more_readings_than_may_be_is_refused() -> None:
    assert len(from_deltas(",".join(["1"] * 5), most=5)) == 5, "the control"
    with pytest.raises(ValueError, match="clock"):
        from_deltas(",".join(["1"] * 6), most=5)


def test_readings_are_taken_once() -> None:
    log = ClockLog()
    assert log.take() is None
    log.add([1, 2], [3])
    assert log.take() == ClockPiece(0, (1, 2), 0, (3,))
    assert log.take() is None
    log.add([4], [])
    assert log.take() == ClockPiece(2, (4,), 1, ())


def test_a_log_holds_no_more_readings_than_a_record_may_have() -> None:
    log = ClockLog()
    log.add([1] * (MAX_READINGS - 1), [])
    assert log.take() == ClockPiece(0, (1,) * (MAX_READINGS - 1), 0, ())
    log.add([1], [1])
    log.add([1], [])
    assert log.take() == ClockPiece(MAX_READINGS - 1, (), 0, (), is_complete=False)
    assert log.take() is None


def test_pieces_are_joined_in_the_order_of_the_readings() -> None:
    first, second = ClockPiece(0, (1,), 0, ()), ClockPiece(1, (2,), 0, (3,))
    assert joined([second, first]) == ClockRecord((1, 2), (3,))


def test_the_pieces_of_a_resumed_execution_are_those_of_all_its_runs() -> None:
    """The second run was given the readings of the first, and went further."""
    first = [ClockPiece(0, (1, 2), 0, ()), ClockPiece(2, (3,), 0, (9,))]
    second = [ClockPiece(0, (1, 2, 3), 0, (9,)), ClockPiece(3, (4,), 1, ())]
    assert joined(first + second) == ClockRecord((1, 2, 3, 4), (9,))
    assert joined([*first, ClockPiece(0, (1, 2, 7), 0, ())]) == ClockRecord((1, 2, 7), (9,)), "the later run counts"


def test_a_record_ends_where_a_piece_is_missing() -> None:
    first, third = ClockPiece(0, (1,), 0, ()), ClockPiece(2, (3,), 0, (4,))
    assert joined([first, third]) == ClockRecord((1,), (4,), is_complete=False)
    assert joined([first, None]) == ClockRecord((1,), (), is_complete=False)
