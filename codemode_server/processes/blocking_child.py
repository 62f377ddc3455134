"""A child process for code that blocks in threads: asked one thing at a time, each within a time limit."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypeVar

from codemode_server.processes.child_process import OutputTail, start_blocking

_MAX_STDERR_BYTES = 4_000
_END_SECONDS = 2.0

T = TypeVar("T")


class ChildEnded(Exception):
    """Raised when the process has ended or closed a pipe."""

    def __init__(self, code: int | None, stderr: str) -> None:
        super().__init__(code, stderr)
        self.code = code
        """Its return code; None while it still runs."""
        self.stderr = stderr
        """The end of what it wrote there."""


class BlockingChild:
    """One process, from its start to its end. `kill` is safe in any thread; all else is for one at a time."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            OSError: it can't be started.
        """
        self._process = start_blocking(command, env=env)
        self._stderr = OutputTail()
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exchange(self, data: bytes, read: Callable[[bytes], T | None], seconds: float) -> T | None:
        """Write the data, and give `read` what comes until it makes something of it; None if that takes too long.

        Raises:
            ChildEnded: it ends first.
        """
        until = time.monotonic() + seconds
        stdin, stdout, stderr = (pipe.fileno() for pipe in self._pipes)
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.fd == stdin:
                        data = self._write(stdin, data)
                        if not data:
                            selector.unregister(stdin)
                    elif key.fd == stderr:
                        if not self._read_stderr(stderr):
                            selector.unregister(stderr)
                    elif (answer := self._read(stdout, read)) is not None:
                        return answer
        return None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """End it, wait for it and close its pipes."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        assert process.stdin and process.stdout  # noqa: S101, PT018 - asked for above
        assert process.stderr  # noqa: S101
        return process.stdin, process.stdout, process.stderr

    def _write(self, stdin: int, data: bytes) -> bytes:
        """What is left to write."""
        try:
            return data[os.write(stdin, data[:65_536]) :]
        except BlockingIOError:
            return data
        except OSError as error:
            raise self._ended() from error

    def _read(self, stdout: int, read: Callable[[bytes], T | None]) -> T | None:
        try:
            received = os.read(stdout, 2**20)
        except BlockingIOError:
            return None
        if not received:
            raise self._ended()
        return read(received)

    def _read_stderr(self, stderr: int) -> bool:
        """Whether there may be more."""
        try:
            received = os.read(stderr, 65_536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._stderr.add(received, _MAX_STDERR_BYTES)
        return bool(received)

    def _ended(self) -> ChildEnded:
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return ChildEnded(None, self._stderr.text)
        self._read_stderr(self._pipes[2].fileno())  # as much as a pipe holds
        return ChildEnded(code, self._stderr.text)
