"""The host's end of a worker process: starts it, has it make instances, learns why it ended, and kills it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.processes.child_process import ChildProcess, OutputTail
from codemode_server.processes.stream_readers import FrameReader, FramingError, framed
from codemode_server.sandbox import frames
from codemode_server.sandbox.backends.wasm import component
from codemode_server.sandbox.contract import Program
from codemode_server.sandbox.packages.installed import GUEST_FOLDER
from codemode_server.sandbox.quota import Quota

SIGNAL = framed(b"")

_START_SECONDS = 60.0
_END_SECONDS = 2.0
_EXIT_OUT_OF_MEMORY = 5
_ALLOCATION = re.compile("alloc|memory", re.IGNORECASE)
_MAX_REASON_BYTES = 2_000
_LOOK_SECONDS = 0.1
ENDED_WHILE_IDLE = "the sandbox's worker process ended while it was idle"


@dataclass(frozen=True, slots=True)
class Instance:
    scratch: Path
    """The folder that its program sees as /tmp."""
    workspace: Path | None
    settings: bytes
    """The frame that has the worker make it."""
    inodes: tuple[int, ...]
    """Inodes of its folders."""

    @classmethod
    def for_program(cls, program: Program, scratch: Path, packages: Path | None) -> Instance:
        """The parameters for a program; `packages` is the folder that it can import from. Raises OSError if a folder is
        missing."""
        folders = {"/tmp": scratch}  # noqa: S108 - the guest's name
        if program.workspace is not None:
            folders["/workspace"] = program.workspace
        if packages is not None:
            folders[GUEST_FOLDER] = packages
        limits = program.limits
        settings = {
            "memory_bytes": limits.memory_mb * 2**20,
            "frame_bytes": frames.longest_frame(limits),
            # One file may grow a little past the quota, so that the quota, with its setting, ends the program.
            "file_bytes": (limits.workspace_mb + 1) * 2**20,
            "read_only": [GUEST_FOLDER],
            # On Windows this wasmtime lets programs out of their folders: GHSA-f2pq-268w-886c.
            "folders": {} if sys.platform == "win32" else {name: str(path) for name, path in folders.items()},
        }
        inodes = tuple([os.stat(path).st_ino for path in folders.values()])  # noqa: PTH116 - faster, for each program
        return cls(scratch, program.workspace, frames.encode(settings), inodes)

    def is_for(self, program: Program, packages: Path | None) -> bool:
        """True if it fits a program: the same parameters, and no folder was replaced or removed."""
        try:
            return self == Instance.for_program(program, self.scratch, packages)
        except OSError:
            return False


class Worker:
    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self.stream = process.stdin
        self.reader = FrameReader(process.stdout)
        self._is_ready = False
        self.instance: Instance | None = None
        """The instance that waits for a program, or runs one; None before the first."""

    @classmethod
    async def start(cls, native_code: Path) -> Worker:
        command = [sys.executable, "-I", "-B", str(component.WORKER), "serve"]
        try:
            process = await ChildProcess.start(
                [*command, str(component.wasmtime_folder()), str(native_code)],
                env=component.worker_environment(),
                cwd=native_code.parent,
            )
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox's worker process can't be started: {error.strerror}") from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ran_out_of_memory(self, reason: str) -> bool:
        """True if it ended because the program's memory was full, or its own, where native code aborts for this."""
        is_full = self._process.returncode == -signal.SIGABRT and _ALLOCATION.search(reason) is not None
        return is_full or self._process.returncode == _EXIT_OUT_OF_MEMORY

    async def ready(self) -> None:
        """Wait until it can make an instance. Raises `SandboxUnavailable` if it did not start."""
        if self._is_ready:
            return
        try:
            with anyio.fail_after(_START_SECONDS):
                await self.reader.read(0)
        except (TimeoutError, FramingError):
            raise SandboxUnavailable("the sandbox's worker process did not become ready") from None
        except anyio.EndOfStream:
            reason = await self.exit_reason()
            raise SandboxUnavailable(f"the sandbox's worker process ended at its start: {reason}") from None
        self._is_ready = True

    async def prepare(self, instance: Instance) -> None:
        """Have it make an instance, without waiting for that. Raises `SandboxUnavailable` if it is dead."""
        self.instance = instance
        await self._send(SIGNAL + instance.settings)

    async def drop_instance(self) -> None:
        """Have it end the instance that waits for a program, once that is made: until then it opens its folders.
        Raises as `ready` and `prepare`."""
        await self._send(SIGNAL + SIGNAL)
        self._is_ready = False
        await self.ready()
        self.instance = None

    async def _send(self, data: bytes) -> None:
        try:
            await self.stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise SandboxUnavailable(ENDED_WHILE_IDLE) from None

    async def has_ended_cleanly(self, quota: Quota) -> bool:
        """True if the instance has ended after the program's `done`, and sent nothing more; False also if it wrote too
        much meanwhile."""
        deadline = anyio.current_time() + _END_SECONDS
        try:
            while self.reader.take(0) is None:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await self.reader.more()
                    continue
                if anyio.current_time() > deadline or await quota.is_exceeded(self.pid):
                    return False
        except (FramingError, anyio.EndOfStream, anyio.BrokenResourceError):
            return False
        return self.reader.is_empty

    async def exit_reason(self) -> str:
        """Why it ended by itself: what it wrote to stderr, or its exit status."""
        reason = OutputTail()
        with anyio.move_on_after(_END_SECONDS):
            await self._process.wait()
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for chunk in self._process.stderr:
                    reason.add(chunk, _MAX_REASON_BYTES)
        return reason.text or f"exit status {self._process.returncode}"

    async def kill(self) -> None:
        await self._process.kill()
