"""Runs `msb pull` in a pseudo-terminal, since it is silent without one, and shortens its progress bars to one line.

layer 1/3  ━━━━━━╌╌╌╌╌╌  12.50 MiB/19.08 MiB  downloading
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import anyio

from codemode_server.processes.child_process import ChildProcess
from codemode_server.text import clean

_STALLED_SECONDS = 180.0
_EVERY_SECONDS = 1.0
_SCREEN = (200, 400)  # lines, columns: room for every layer's bar
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BAR = re.compile(r"layer (\d+)/(\d+)\s+[━╸╌\s]*([\d.]+) (B|[KMG]iB)/([\d.]+) (B|[KMG]iB)\s+(\w+)")
_MAX_OUTPUT_CHARACTERS = 16_384
_IN_ITS_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal the controlling one. When our end of it closes, also because we were killed, the system sends
SIGHUP to the command, which would else go on for as long as the download takes. `nohup` has us and our children ignore
SIGHUP."""


class PullProgress:
    """The state of a pull, from its bars. Calls `progress` at most once a second, and only with a new line."""

    def __init__(self, progress: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._reported = ""
        self._reported_at = float("-inf")
        self._layers: dict[str, tuple[float, float]] = {}
        self._number = 0
        self._bars: dict[str, tuple[str, ...]] = {}

    def feed(self, text: str) -> bool:
        """Read the bars on the screen; returns whether any has changed."""
        before = dict(self._bars)
        for bar in _BAR.findall(text):
            layer, number, done, done_unit, total, total_unit, state = bar
            self._bars[layer] = bar
            size = float(total) * _UNITS[total_unit]
            if size > 1:  # 1 B stands for a layer of unknown size
                got = float(done) * _UNITS[done_unit] if state == "downloading" else size
                self._layers[layer] = (got, size)
            self._number = int(number)
        self._report()
        return self._bars != before

    @property
    def line(self) -> str:
        got, size = (sum(column) for column in zip(*self._layers.values(), strict=True)) if self._layers else (0, 0)
        if not size:
            return "pulling the sandbox image"
        if len(self._layers) < self._number:
            return f"pulling the sandbox image: {got / 1e6:.0f} MB"
        if got >= size:
            return "unpacking the sandbox image"
        return f"pulling the sandbox image: {got / 1e6:.0f} of {size / 1e6:.0f} MB"

    def _report(self) -> None:
        now, line = self._clock(), self.line
        if line != self._reported and now >= self._reported_at + _EVERY_SECONDS:
            self._reported, self._reported_at = line, now
            self._progress(line)


async def run_in_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    moved: Callable[[str], bool],
    stalled_seconds: float = _STALLED_SECONDS,
) -> tuple[int, str]:
    """Run a command that writes to a terminal; returns its exit code and the end of its output.

    The terminal is the command's own, so that the system ends the command if this process is killed.

    `moved` gets the end of the output after each piece, and returns whether there was progress.

    Raises:
        TimeoutError: there was no progress for `stalled_seconds`.
    """
    ours, theirs = _terminal()
    try:
        try:
            child = await ChildProcess.start(
                [sys.executable, "-I", "-S", "-c", _IN_ITS_TERMINAL, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=theirs,
                env={**environment, "TERM": "xterm"},
            )
        finally:
            os.close(theirs)
        text = ""
        try:
            with anyio.fail_after(stalled_seconds) as patience:
                while piece := await _read(ours):
                    text = (text + piece.decode(errors="replace"))[-_MAX_OUTPUT_CHARACTERS:]
                    if moved(clean(text)):
                        patience.deadline = anyio.current_time() + stalled_seconds
                return await child.wait(), clean(text)
        finally:
            await child.kill()
    finally:
        os.close(ours)


def _terminal() -> tuple[int, int]:
    if sys.platform == "win32":
        raise NotImplementedError  # no microVM runs there
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_SCREEN, 0, 0))
    os.set_blocking(ours, False)
    return ours, theirs


async def _read(terminal: int) -> bytes:
    """The next piece; empty at the end, which Linux reports as an error."""
    while True:
        try:
            return os.read(terminal, 65_536)
        except BlockingIOError:
            await anyio.wait_readable(terminal)
        except OSError:
            return b""
