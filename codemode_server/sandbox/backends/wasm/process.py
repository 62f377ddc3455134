"""One worker process, from its start to its end: its frames, its settings for a program, its last words."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.processes.child_process import ChildProcess, OutputTail
from codemode_server.processes.framing import FramingError, frame
from codemode_server.processes.stream_readers import FrameReader
from codemode_server.sandbox import frames
from codemode_server.sandbox.backends.wasm import component
from codemode_server.sandbox.contract import Program

_START_SECONDS = 60.0
_END_SECONDS = 2.0
_EXIT_BAD_NATIVE_CODE = 3
_EXIT_OUT_OF_MEMORY = 5
_MAX_LAST_WORDS = 2_000
_ENDED_WHILE_IDLE = "the sandbox's worker process ended while it was idle"


class BadNativeCode(Exception):
    """Raised when the worker could not load the native code: it has to be made again."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What an instance of the component is made with."""

    scratch: Path
    """The folder that its program sees as /tmp."""
    workspace: Path | None
    memory_mb: int
    file_mb: int
    inodes: tuple[int, ...]
    """Of its folders."""

    @classmethod
    def for_program(cls, program: Program, scratch: Path) -> Instance:
        """Raises OSError if a folder is not there."""
        folders = [scratch] if program.workspace is None else [scratch, program.workspace]
        # One file may grow a little past the quota, so that the quota, with its setting, ends the program.
        file_mb = program.limits.workspace_mb + 1
        inodes = tuple(folder.stat().st_ino for folder in folders)
        return cls(scratch, program.workspace, program.limits.memory_mb, file_mb, inodes)

    def is_for(self, program: Program) -> bool:
        """Whether it can run a program: nothing has changed, and nobody has replaced or removed a folder."""
        try:
            return self == Instance.for_program(program, self.scratch)
        except OSError:
            return False


class Worker:
    """A process that runs one program at a time, each in a fresh instance."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self.stream = process.stdin
        self.reader = FrameReader(process.stdout)
        self._is_ready = False
        self.instance: Instance | None = None
        """One that waits for a program; nothing of any program has run in it."""

    @classmethod
    async def start(cls, native_code: Path) -> Worker:
        """Start a process; it makes itself ready while others go on."""
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

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether it ended by itself since the program's memory was full."""
        return self._process.returncode == _EXIT_OUT_OF_MEMORY

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until it can take a program.

        Raises:
            BadNativeCode: it could not load its code.
            SandboxUnavailable: it did not come up.
        """
        if self._is_ready:
            return
        try:
            with anyio.fail_after(_START_SECONDS):
                await self._read_own_word()
        except (TimeoutError, FramingError):
            raise SandboxUnavailable("the sandbox's worker process did not become ready") from None
        except anyio.EndOfStream:
            words = await self.last_words()
            if self._process.returncode == _EXIT_BAD_NATIVE_CODE:
                raise BadNativeCode(words) from None
            raise SandboxUnavailable(f"the sandbox's worker process ended at its start: {words}") from None
        self._is_ready = True

    async def prepare(self, instance: Instance) -> None:
        """Have it make an instance, while the host goes on.

        Raises:
            SandboxUnavailable: it is dead.
        """
        self.instance = instance
        folders = {"/tmp": str(instance.scratch)}  # noqa: S108 - the guest's name
        if instance.workspace is not None:
            folders["/workspace"] = str(instance.workspace)
        settings = {
            "memory_bytes": instance.memory_mb * 2**20,
            "file_bytes": instance.file_mb * 2**20,
            "folders": folders,
        }
        await self._send(frame(b"") + frames.encode(settings))

    async def begin(self) -> Instance:
        """Give the instance, once it waits for its program.

        Raises:
            SandboxUnavailable: it is dead, and nothing of the program has run.
        """
        self._is_ready = False
        await self._send(frame(b""))
        try:
            with anyio.fail_after(_START_SECONDS):
                await self._read_own_word()
        except (TimeoutError, FramingError, anyio.EndOfStream):
            raise SandboxUnavailable(_ENDED_WHILE_IDLE) from None
        assert self.instance is not None, "`prepare` was called"  # noqa: S101 - else a fault of ours
        instance, self.instance = self.instance, None
        return instance

    async def _send(self, data: bytes) -> None:
        try:
            await self.stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise SandboxUnavailable(_ENDED_WHILE_IDLE) from None

    async def is_reusable(self) -> bool:
        """Whether, after a program's `done`, nothing of it runs any more and nothing more was said."""
        try:
            with anyio.fail_after(_END_SECONDS):
                await self._read_own_word()
        except (TimeoutError, FramingError, anyio.EndOfStream, anyio.BrokenResourceError):
            return False
        self._is_ready = True
        return self.reader.is_empty

    async def _read_own_word(self) -> None:
        if await self.reader.read(0):
            raise FramingError("a frame after the last")

    async def last_words(self) -> str:
        """Why it ended by itself, in its own words."""
        words = OutputTail()
        with anyio.move_on_after(_END_SECONDS):
            await self._process.wait()
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for chunk in self._process.stderr:
                    words.add(chunk, _MAX_LAST_WORDS)
        return words.text or f"exit status {self._process.returncode}"

    async def kill(self) -> None:
        """End it now, and wait until it is gone."""
        await self._process.kill()
