"""The clocks that a program reads: the real ones, whose readings are recorded, or first those of an earlier run.

A program that runs again gets from the wall clock and from the monotonic clock the readings of its earlier run, in the
order in which it asks, and then the real time, which is never before the last of them. So code that asks in the same
order gets the same times. A program without concurrency always does. One with tasks or threads does if the answers to
its calls arrive in the same order; otherwise a task may get the reading that another one got. In a microVM, threads
run in any order, so only one of them may ask.

Readings are sent before the next call, so that the host stores them with it. Not recorded: CPU time,
`time.clock_gettime`, the times of files, the `time()` of an event loop, and the waiting of the library and the guest,
which goes by the real clock.
"""

from __future__ import annotations

import collections
import concurrent.futures._base
import datetime
import gc
import itertools
import queue  # noqa: F401 - these five take the real clock from `time`, before it is replaced there
import sched  # noqa: F401
import subprocess  # noqa: F401
import sys
import threading  # noqa: F401
import time
import timeit
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .link import to_json
from .replacements import replace_members

real_monotonic = time.monotonic
"""For the guest's own waiting, which is not to be recorded."""
_MAX_READINGS = 10_000
"""Recorded readings of each clock; the host takes no more."""
_FRAME_READINGS = 1_000
_UTCNOW = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use timezone-aware "
    "objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC)."
)
_localtime, _gmtime, _asctime, _strftime = time.localtime, time.gmtime, time.asctime, time.strftime


class _Clock:
    """One clock: recorded readings, then real ones."""

    def __init__(self, real_ns: Callable[[], int], *, is_absolute: bool) -> None:
        """`is_absolute`: after the recorded readings it shows the real time, unless that would be going back; otherwise
        it goes on from the last of them."""
        self._real_ns = real_ns
        self._is_absolute = is_absolute
        self._recorded: Iterator[int] = iter(())
        self._last: int | None = None
        """The last recorded reading, as long as no real one followed."""
        self._ahead = 0
        """Added to the real readings."""
        self._left = 0
        self._unsent: collections.deque[int] = collections.deque()
        self.is_complete = True
        """Whether every reading was recorded."""

    def begin(self, readings: str) -> None:
        """Record from now on, and give these readings first: nanoseconds, each after the first as the difference."""
        self._recorded = itertools.accumulate(map(int, readings.split(","))) if readings else iter(())
        self._last, self._ahead = None, 0
        self._unsent.clear()
        self._left, self.is_complete = _MAX_READINGS, True

    def read_ns(self) -> int:
        reading = next(self._recorded, None)
        if reading is None:
            reading = self._real_reading()
        else:
            self._last = reading
        if self._left:
            self._left -= 1
            self._unsent.append(reading)
        else:
            self.is_complete = False
        return reading

    def _real_reading(self) -> int:
        real = self._real_ns()
        if self._last is not None:
            ahead = self._last - real
            self._ahead, self._last = max(0, ahead) if self._is_absolute else ahead, None
        return real + self._ahead

    def forget_record(self) -> None:
        """Give real readings from now on."""
        self._recorded = iter(())

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def take(self) -> str:
        """Some readings that were not sent yet, in the form that `begin` takes."""
        taken = [self._unsent.popleft() for _ in range(min(len(self._unsent), _FRAME_READINGS))]
        return ",".join(map(str, [*taken[:1], *(later - earlier for earlier, later in itertools.pairwise(taken))]))


class Clocks:
    """Both clocks of the program."""

    def __init__(self) -> None:
        self.wall = _Clock(time.time_ns, is_absolute=True)
        self.monotonic = _Clock(time.monotonic_ns, is_absolute=False)
        self._is_ended = False

    def begin(self, wall: str, monotonic: str) -> None:
        """The program begins, with these readings of an earlier run."""
        self._is_ended = False
        self.wall.begin(wall)
        self.monotonic.begin(monotonic)

    def forget_record(self) -> None:
        """Show the real time from now on."""
        self.wall.forget_record()
        self.monotonic.forget_record()

    def frames(self) -> Iterator[str]:
        """The frames with the readings since the last time."""
        while not self._is_ended:
            is_complete = self.wall.is_complete and self.monotonic.is_complete
            if is_complete and not self.wall.has_unsent and not self.monotonic.has_unsent:
                return
            wall, monotonic = self.wall.take(), self.monotonic.take()
            self._is_ended = not is_complete and not self.wall.has_unsent and not self.monotonic.has_unsent
            yield to_json({"op": "clock", "wall": wall, "monotonic": monotonic, "is_complete": not self._is_ended})


def install(clocks: Clocks) -> None:
    """Have everything in Python's library that shows the time to a program read these clocks."""
    replace_members(concurrent.futures._base, time=types.SimpleNamespace(monotonic=real_monotonic))
    _install_wall_clock(clocks.wall)
    _install_monotonic_clock(clocks.monotonic)
    _install_dates(clocks.wall)


def _install_wall_clock(wall: _Clock) -> None:
    def seconds() -> float:
        return wall.read_ns() / 1e9

    def localtime(seconds: float | None = None, /) -> time.struct_time:
        return _localtime(wall.read_ns() // 10**9 if seconds is None else seconds)

    def gmtime(seconds: float | None = None, /) -> time.struct_time:
        return _gmtime(wall.read_ns() // 10**9 if seconds is None else seconds)

    def ctime(seconds: float | None = None, /) -> str:
        return _asctime(localtime(seconds))

    def asctime(when: Any = None, /) -> str:
        return _asctime(localtime() if when is None else when)

    def strftime(form: str, when: Any = None, /) -> str:
        return _strftime(form, localtime() if when is None else when)

    replace_members(time, time=seconds, time_ns=wall.read_ns, localtime=localtime, gmtime=gmtime)
    replace_members(time, ctime=ctime, asctime=asctime, strftime=strftime)


def _install_monotonic_clock(monotonic: _Clock) -> None:
    def seconds() -> float:
        return monotonic.read_ns() / 1e9

    replace_members(time, monotonic=seconds, monotonic_ns=monotonic.read_ns)
    replace_members(time, perf_counter=seconds, perf_counter_ns=monotonic.read_ns)
    replace_members(timeit, default_timer=seconds)


def _install_dates(wall: _Clock) -> None:
    def seconds() -> float:
        return wall.read_ns() // 1_000 / 1e6  # so many digits of a float are exact, so the microsecond is

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return cls.fromtimestamp(seconds(), tz)

    def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
        if sys.version_info >= (3, 12):
            warnings.warn(_UTCNOW, DeprecationWarning, stacklevel=2)
        return cls.fromtimestamp(seconds(), datetime.UTC).replace(tzinfo=None)

    def today(cls: type[datetime.date]) -> datetime.date:
        return cls.fromtimestamp(seconds())

    _replace_in_type(datetime.date, today=classmethod(today))
    _replace_in_type(datetime.datetime, now=classmethod(now), utcnow=classmethod(utcnow))


def _replace_in_type(kind: type, **members: Any) -> None:
    """Give a type that is written in C other members: a subclass in its place would not be the type of the values that
    the library makes."""
    (own,) = gc.get_referents(kind.__dict__)
    own.update(members)
    clear_cache: Callable[[], None] = vars(sys).get("_clear_internal_caches") or vars(sys)["_clear_type_cache"]
    clear_cache()
