"""The journal's values for what repeats a program: the form of its clock readings, and how they are put together."""

from __future__ import annotations

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.repetition import ClockPiece, Repeat, deltas, from_deltas

READ_SEED = "SELECT seed, clock FROM journal_executions WHERE principal = :principal AND execution_id = :execution_id"
READ_CLOCK = (
    "SELECT seq, clock FROM journal_calls WHERE execution_id = :execution_id AND clock IS NOT NULL ORDER BY seq"
)


def from_repeat(repeat: Repeat) -> JsonValue:
    """Seed and build as they are stored; the readings are stored in pieces."""
    return [repeat.seed.hex(), repeat.build]


def to_repeat(value: JsonValue) -> Repeat:
    """What a stored value says; a database of before the builds were stored has the seed alone."""
    seed, build = (value, "") if isinstance(value, str) else value
    return Repeat(bytes.fromhex(seed), build=build)


def from_piece(piece: ClockPiece) -> JsonValue:
    """Clock readings as they are stored."""
    return {
        "wall": [piece.wall_start, deltas(piece.wall_ns)],
        "monotonic": [piece.monotonic_start, deltas(piece.monotonic_ns)],
        "is_complete": piece.is_complete,
    }


def to_piece(value: JsonValue) -> ClockPiece:
    """The readings of a stored value."""
    (wall_start, wall), (monotonic_start, monotonic) = value["wall"], value["monotonic"]
    return ClockPiece(wall_start, from_deltas(wall), monotonic_start, from_deltas(monotonic), value["is_complete"])
