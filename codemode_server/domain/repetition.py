"""What makes a program repeatable: the seed of its randomness and the clock readings that it was given. No I/O.

A program that runs again with the `Repeat` of its first run gets the same random bytes and the same readings, in the
order in which it asks for them. Readings reach the host before the call that follows them, so that the journal holds
what may have influenced a call once it holds the call.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

SEED_BYTES = 32
MAX_READINGS = 20_000
"""Readings that are recorded of one execution; the record is incomplete if a program makes more."""
_MAX_NS = 2**63
_DELTAS = re.compile(r"-?[0-9]{1,20}(?:,-?[0-9]{1,20})*")


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """The clock readings of an execution, in nanoseconds and in the order in which the program made them."""

    wall_ns: tuple[int, ...] = ()
    """Since 1970."""
    monotonic_ns: tuple[int, ...] = ()
    is_complete: bool = True
    """False if the program made readings that were not recorded, or that can't be read any more. The tuples hold those
    before them."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Whatever a program gets that its text and the answers to its calls do not determine."""

    seed: bytes = field(repr=False)
    clock: ClockRecord | None = field(default=None, repr=False)
    """None for the first run: the program sees the real clock. Otherwise it gets these readings, and the real clock
    once they are used up."""
    build: str = ""
    """Of the sandbox of the first run (`SandboxBackend.build`); empty if that is not known."""

    @classmethod
    def new(cls) -> Repeat:
        """For a program that runs for the first time."""
        return cls(secrets.token_bytes(SEED_BYTES))


@dataclass(frozen=True, slots=True)
class ClockPiece:
    """Consecutive readings, and how many of each clock came before them."""

    wall_start: int
    wall_ns: tuple[int, ...]
    monotonic_start: int
    monotonic_ns: tuple[int, ...]
    is_complete: bool = True
    """False if the program goes on without a record."""


class ClockLog:
    """The readings of one running execution that are not in the journal yet."""

    def __init__(self) -> None:
        self._wall: list[int] = []
        self._monotonic: list[int] = []
        self._taken = (0, 0)
        self._is_complete = True
        self._is_end_taken = False

    def add(self, wall_ns: Sequence[int], monotonic_ns: Sequence[int], *, is_complete: bool = True) -> None:
        """Readings that the program has made. Once there are too many, it holds no further ones."""
        if not self._is_complete:
            return
        made = sum(self._taken) + len(self._wall) + len(self._monotonic)
        if made + len(wall_ns) + len(monotonic_ns) > MAX_READINGS:
            self._is_complete = False
            return
        self._wall += wall_ns
        self._monotonic += monotonic_ns
        self._is_complete = is_complete

    def take(self) -> ClockPiece | None:
        """What was added since the last time; None if nothing was."""
        if not self._wall and not self._monotonic and (self._is_complete or self._is_end_taken):
            return None
        piece = ClockPiece(self._taken[0], tuple(self._wall), self._taken[1], tuple(self._monotonic), self._is_complete)
        self._taken = self._taken[0] + len(self._wall), self._taken[1] + len(self._monotonic)
        self._is_end_taken = not self._is_complete
        self._wall, self._monotonic = [], []
        return piece


def joined(pieces: Iterable[ClockPiece | None]) -> ClockRecord:
    """The record of an execution from its pieces; None for one that can't be read. An execution that was resumed has
    pieces of several runs, the later ones later, which count where the same reading is in both."""
    found = list(pieces)
    readable = [piece for piece in found if piece is not None]
    wall, is_wall_whole = _chained((piece.wall_start, piece.wall_ns) for piece in readable)
    monotonic, is_monotonic_whole = _chained((piece.monotonic_start, piece.monotonic_ns) for piece in readable)
    is_whole = is_wall_whole and is_monotonic_whole and len(readable) == len(found)
    return ClockRecord(wall, monotonic, is_whole and all(piece.is_complete for piece in readable))


def _chained(parts: Iterable[tuple[int, tuple[int, ...]]]) -> tuple[tuple[int, ...], bool]:
    """All readings before the first that is missing, and whether none is."""
    readings: dict[int, int] = {}
    for start, values in parts:
        readings.update(enumerate(values, start))
    length = next(number for number in itertools.count() if number not in readings)
    return tuple(readings[number] for number in range(length)), length == len(readings)


def deltas(readings: Sequence[int]) -> str:
    """Readings as text: the first, then the difference of each to the one before."""
    return ",".join(map(str, [*readings[:1], *(later - earlier for earlier, later in pairwise(readings))]))


def from_deltas(text: str, *, most: int = MAX_READINGS) -> tuple[int, ...]:
    """The readings of such a text, which may come from a hostile program.

    Raises:
        ValueError: it is no such text, or holds more than `most` readings or impossible ones.
    """
    if not text:
        return ()
    if text.count(",") >= most or _DELTAS.fullmatch(text) is None:
        raise ValueError("no clock readings")
    readings = tuple(accumulate(map(int, text.split(","))))
    if min(readings) < 0 or max(readings) >= _MAX_NS:
        raise ValueError("clock readings of no clock")
    return readings
