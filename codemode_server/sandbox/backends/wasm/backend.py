"""Implements the sandbox contract with a pool of worker processes; each program runs in a fresh instance.

A worker whose program ended by itself makes a fresh instance for the next program while the answer is sent; after
anything else (a limit, a trap, a broken frame, a cancellation) its process is killed. Replacements are started without
waiting until they are ready. So the pool needs no task of its own, and `start`, `run` and `aclose` may be called from
different tasks of one event loop.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.backends.wasm import component
from codemode_server.sandbox.backends.wasm.process import ENDED_WHILE_IDLE, SIGNAL, Instance, Worker
from codemode_server.sandbox.channel import Channel, NotBegun
from codemode_server.sandbox.contract import HostApi, Outcome, Program, SandboxCount, with_reason
from codemode_server.sandbox.importable import IN_WASM
from codemode_server.sandbox.packages.installed import NO_PACKAGES, Packages
from codemode_server.sandbox.quota import Quota, Quotas, ended_itself, is_empty
from codemode_server.support import temporary

_log = logging.getLogger(__name__)
RECENT_SECONDS = 5.0


class WasmBackend:
    """Runs programs on CPython in WebAssembly; works wherever wasmtime does."""

    name = "wasm"
    level = IsolationLevel.WASM

    def __init__(
        self, *, warm: int = 1, packages: Packages = NO_PACKAGES, announce: Callable[[str], None] = _log.info
    ) -> None:
        self.packages = packages
        self.importable: frozenset[str] | None = IN_WASM | packages.modules(in_wasm=True)
        self._warm = warm
        self._announce = announce
        self._native: Path | None = None
        self._starting = anyio.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._closed = False
        self._quotas = Quotas()
        self._has_surplus = anyio.Event()
        """Set when there are workers, or folders, for `tend` to remove."""
        self._used_at = 0.0
        """When the last program ended."""
        self._scratch: list[Path] = []
        """The /tmp of programs that ended, which hold files, for `tend` to remove."""

    @property
    def count(self) -> SandboxCount:
        return SandboxCount(idle=len(self._idle), busy=len(self._all) - len(self._idle))

    async def start(self) -> None:
        await self._native_code()
        await self._fill()
        for worker in list(self._idle):
            await worker.ready()

    async def tend(self) -> None:
        while True:
            with anyio.move_on_after(RECENT_SECONDS if len(self._idle) > self._warm else None):
                await self._has_surplus.wait()
            self._has_surplus = anyio.Event()
            await self._remove_scratch()
            if anyio.current_time() - self._used_at >= RECENT_SECONDS:
                while len(self._idle) > self._warm:
                    await self._discard(self._idle[0])

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        worker, is_reusable = None, False
        quota = await self._quotas.begin(program)
        try:
            outcome = None
            while outcome is None:
                worker, is_new = await self._take(program)
                try:
                    outcome, is_reusable = await self._run_in(worker, program, host_api, quota)
                except NotBegun:
                    await self._discard(worker)
                    if is_new:
                        raise SandboxUnavailable(ENDED_WHILE_IDLE) from None
        finally:
            await self._quotas.end(quota)
            if worker is not None:
                with anyio.CancelScope(shield=True):
                    await self._give_back(worker, program, is_reusable=is_reusable)
        return quota.judged(outcome)

    async def aclose(self) -> None:
        self._closed = True
        self._idle.clear()
        for worker in list(self._all):
            await self._discard(worker)
        await self._remove_scratch()

    async def _run_in(self, worker: Worker, program: Program, host_api: HostApi, quota: Quota) -> tuple[Outcome, bool]:
        """Run a program; also gives whether its worker can be used again, and kills the worker if not."""
        assert worker.instance is not None, "`_take` made it"  # noqa: S101 - a bug of ours otherwise
        quota.scratch = worker.instance.scratch
        channel = (program.channel or Channel)(worker.reader, worker.stream, program, host_api, SIGNAL)
        is_reusable = False
        try:
            outcome = await channel.run(quota, worker.pid)
            if channel.is_gone:
                reason = await worker.exit_reason()
                outcome = with_reason(
                    outcome, program.limits, reason, is_out_of_memory=worker.ran_out_of_memory(reason)
                )
            if channel.is_clean and ended_itself(outcome):
                is_reusable = await worker.has_ended_cleanly(quota)
        finally:
            if not is_reusable:
                await worker.kill()
        return outcome, is_reusable

    async def _take(self, program: Program) -> tuple[Worker, bool]:
        """A worker with an instance for the program, and whether it was started just now. An instance that was made for
        other limits or folders is replaced: to start a worker takes far longer."""
        while True:
            is_new, is_fit = not self._idle, False
            worker = await self._start_worker() if is_new else self._idle.pop()
            try:
                if worker.instance is not None and not worker.instance.is_for(program, self.packages.folder):
                    scratch = worker.instance.scratch
                    await worker.drop_instance()
                    self._leave(scratch)
                if worker.instance is None:
                    await worker.ready()
                    await worker.prepare(self._make_instance(program))
                is_fit = True
            except SandboxUnavailable:
                if is_new:
                    raise
            finally:
                if not is_fit:
                    with anyio.CancelScope(shield=True):
                        await self._discard(worker)
            if is_fit:
                return worker, is_new

    async def _give_back(self, worker: Worker, program: Program, *, is_reusable: bool) -> None:
        """Return a worker to the pool with an instance for the next program, which probably has the same limits and
        workspace; or discard it. More than `sandbox.warm` stay for a while: to start one costs more processor time than
        a short program."""
        self._used_at = anyio.current_time()
        if is_reusable and self._warm and not self._closed:
            try:
                await worker.prepare(self._next_instance(worker.instance, program))
            except SandboxUnavailable as error:
                _log.warning("no sandbox could be prepared for the next program: %s", error)
            else:
                self._idle.append(worker)
                if len(self._idle) > self._warm:
                    self._has_surplus.set()
                return
        await self._discard(worker)
        if self._closed:
            await self._remove_scratch()
        try:
            await self._fill()
        except SandboxUnavailable as error:
            _log.warning("a sandbox could not be replaced: %s", error)

    def _next_instance(self, last: Instance | None, program: Program) -> Instance:
        """The same parameters again if the program has left nothing in its /tmp."""
        if last is not None and is_empty(last.scratch):
            os.utime(last.scratch)  # whatever time the program has set
            return last
        if last is not None:
            self._leave(last.scratch)
        return self._make_instance(program)

    def _make_instance(self, program: Program) -> Instance:
        scratch, packages = None, self.packages.folder
        try:
            scratch = temporary.make("tmp")
            return Instance.for_program(program, scratch, packages)
        except OSError as error:
            if scratch is not None:
                temporary.remove(scratch)
            if packages is not None and not packages.is_dir():
                reason = f"the folder of the packages for programs, {packages}, was removed"
                raise SandboxUnavailable(reason, "`codemode-server setup` installs them") from error
            reason = f"no folder for a program's /tmp can be made in {tempfile.gettempdir()}: {error.strerror}"
            remedy = "where the disk is full, `codemode-server workspace clean` removes the programs' files"
            raise SandboxUnavailable(reason, remedy, is_temporary=True) from error

    async def _fill(self) -> None:
        while len(self._idle) < self._warm and not self._closed:
            self._idle.insert(0, await self._start_worker())

    async def _start_worker(self) -> Worker:
        if self._closed:
            raise SandboxUnavailable("the sandbox is closed")
        worker = await Worker.start(await self._native_code())
        self._all.add(worker)
        return worker

    async def _discard(self, worker: Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
        await worker.kill()
        self._all.discard(worker)
        instance, worker.instance = worker.instance, None
        if instance is not None:
            self._leave(instance.scratch)

    def _leave(self, scratch: Path) -> None:
        try:
            os.rmdir(scratch)  # noqa: PTH106 - most programs leave it empty
        except OSError:
            self._scratch.append(scratch)
            self._has_surplus.set()

    async def _remove_scratch(self) -> None:
        while self._scratch:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(temporary.remove, self._scratch.pop())

    async def _native_code(self) -> Path:
        async with self._starting:
            if self._native is None:
                self._native = await anyio.to_thread.run_sync(
                    component.prepared, self._announce, abandon_on_cancel=True
                )
            return self._native
