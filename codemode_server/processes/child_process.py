"""Starts and ends child processes; a cancellation at any moment leaves no unattended process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess
from typing import IO, Any

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, ByteSendStream, Process

from codemode_server.processes import windows

_POLL_S = 0.01
_REAP_S = 0.3
"""How long a process may take to be gone after SIGKILL."""
_MAX_OUTPUT_BYTES = 4 * 2**20


class OutputTail:
    """The last bytes of what a process has written."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_cut = False

    def add(self, chunk: bytes, max_bytes: int) -> None:
        self.data += chunk
        surplus = len(self.data) - max_bytes
        if surplus > 0:
            del self.data[:surplus]
            self.is_cut = True

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace").strip()


class ChildProcess:
    """One child process, from its start to its end."""

    def __init__(self, process: Process) -> None:
        self._process = process
        # There is no public way to it. anyio's streams take two turns of the event loop for each write.
        self._of_asyncio: Any = getattr(process, "_process", None)

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        stdin: int = PIPE,
        stdout: int = PIPE,
        stderr: int | IO[bytes] = PIPE,
        start_new_session: bool = True,
    ) -> ChildProcess:
        """Start a process in a group of its own, with pipes; the caller ends it with `kill` or `end_group`.

        This is not cancelled: asyncio would kill the process but, cancelled again by anyio, not wait for it. A
        cancellation is raised where the caller waits next, so there must be no `await` before the caller's `try`.

        Raises:
            OSError: it can't be started.
        """
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                windows.startable(command, env) if sys.platform == "win32" else command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=_environment(env),
                start_new_session=start_new_session,
            )
            if sys.platform == "win32" and start_new_session:
                windows.begin_group(process)
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    @property
    def has_exited(self) -> bool:
        """True if it has exited, also while asyncio has not reaped it, which takes longer on a busy machine."""
        if self.returncode is not None or sys.platform == "win32":
            return self.returncode is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # it is reaped, and asyncio is about to know
            return True

    @property
    def stdin(self) -> ByteSendStream:
        assert self._process.stdin, "it was started with this pipe"  # noqa: S101 - else a fault of ours
        return self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        assert self._process.stdout, "it was started with this pipe"  # noqa: S101 - else a fault of ours
        return self._process.stdout

    @property
    def stderr(self) -> ByteReceiveStream:
        assert self._process.stderr, "it was started with this pipe"  # noqa: S101 - else a fault of ours
        return self._process.stderr

    async def wait(self) -> int:
        """Wait until it has exited; gives its return code."""
        return await self._process.wait()

    async def write(self, data: bytes, *, waits: bool = True) -> None:
        """Write to its stdin at once, in one piece; with `waits`, returns once the process reads. Raises
        `ConnectionError`: it has closed its stdin."""
        self._of_asyncio.stdin.write(data)
        if waits:
            await self._of_asyncio.stdin.drain()

    async def kill(self) -> None:
        """End it now if it runs, and wait until it is gone; not cancelled."""
        with anyio.CancelScope(shield=True):
            if self.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
            await self._process.aclose()

    async def close_stdin(self, seconds: float) -> None:
        """Close its stdin, and wait at most so long for it to exit by itself. By its return code: `Process.wait` also
        waits for pipes that grandchildren hold open."""
        await _close(self._process.stdin)
        with anyio.move_on_after(seconds):
            while self.returncode is None:  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(_POLL_S)

    async def end_group(self, grace_s: float) -> bool:
        """Send SIGTERM to its process group and, after `grace_s`, SIGKILL; gives whether all of the group is gone.
        Windows has no SIGTERM: there all of them are killed at once. Every wait is bounded: a process that the system
        does not end is left behind."""
        if sys.platform == "win32":
            windows.end_group(self._process)
            await self._group_ends(_REAP_S)
        elif self._signal_group(signal.SIGTERM):
            await self._group_ends(grace_s)
            if self._signal_group(signal.SIGKILL):
                await self._group_ends(_REAP_S)
        await _close(self._process.stdout)
        await _close(self._process.stderr)
        # Open pipe ends of a survivor would keep asyncio's transport open, which warns at its collection.
        transport = getattr(self._of_asyncio, "_transport", None)
        if transport is not None:
            with suppress(PermissionError):
                transport.close()
        return not self._is_group_there()

    def _signal_group(self, number: int) -> bool:
        if sys.platform == "win32":
            raise NotImplementedError  # its callers have a branch for that
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of zombies
            return True
        return True

    def _is_group_there(self) -> bool:
        """True if one of its processes is left; on Windows, if its leader is."""
        return self.returncode is None if sys.platform == "win32" else self._signal_group(0)

    async def _group_ends(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self.returncode is None or self._is_group_there():  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(_POLL_S)


async def run(command: Sequence[str], *, env: Mapping[str, str], seconds: float) -> CompletedProcess[str]:
    """Run a command without input; it is killed when this is cancelled or takes too long. Of each output the last 4 MiB
    are held.

    It stays in our process group, so that a terminal's Ctrl-C reaches it.

    Raises:
        OSError: it can't be started.
        TimeoutError: it takes longer than `seconds`.
    """
    outputs = OutputTail(), OutputTail()
    child = await ChildProcess.start(command, env=env, stdin=DEVNULL, start_new_session=False)
    try:
        with anyio.fail_after(seconds):
            async with anyio.create_task_group() as tasks:
                for stream, output in zip((child.stdout, child.stderr), outputs, strict=True):
                    tasks.start_soon(_read_all, stream, output)
            code = await child.wait()
    finally:
        await child.kill()
    return CompletedProcess(command, code, *(output.data.decode(errors="replace") for output in outputs))


def start_blocking(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path = Path("/"),
    stdin: int = PIPE,
    stdout: int = PIPE,
    stderr: int = PIPE,
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own for code that blocks; the caller kills it and waits for it. Raises
    `OSError` if it can't be started."""
    process = subprocess.Popen(  # noqa: S603 - the caller's own program
        windows.startable(command, env) if sys.platform == "win32" else command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=_environment(env),
        cwd=cwd,
        bufsize=0,
        start_new_session=True,
    )
    if sys.platform == "win32":
        windows.begin_group(process)
    return process


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what `start_blocking` started, with its group; wait for nothing."""
    if sys.platform == "win32":
        windows.end_group(process)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(env: Mapping[str, str]) -> Mapping[str, str]:
    return windows.environment(env, os.environ) if sys.platform == "win32" else env


async def _read_all(stream: ByteReceiveStream, output: OutputTail) -> None:
    async for chunk in stream:
        output.add(chunk, _MAX_OUTPUT_BYTES)


async def _close(stream: AsyncResource | None) -> None:
    if stream is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stream.aclose()
