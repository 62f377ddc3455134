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
from codemode_server.sandbox.backends.wasm import build, component
from codemode_server.sandbox.backends.wasm.process import Instance, Worker
from codemode_server.sandbox.channel import Channel, with_reason
from codemode_server.sandbox.contract import HostApi, Outcome, Program, SandboxCount
from codemode_server.sandbox.importable import IN_WASM
from codemode_server.sandbox.quota import Quota, Quotas, ended_itself
from codemode_server.support import temporary

_log = logging.getLogger(__name__)
RECENT_SECONDS = 5.0


class WasmBackend:
    """Runs programs on CPython in WebAssembly; works wherever wasmtime does."""

    name = "wasm"
    level = IsolationLevel.WASM
    importable: frozenset[str] | None = IN_WASM

    def __init__(self, *, warm: int = 1, announce: Callable[[str], None] = _log.info) -> None:
        self._warm = warm
        self._announce = announce
        self._native: Path | None = None
        self._starting = anyio.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._closed = False
        self._quotas = Quotas()
        self._has_surplus = anyio.Event()
        """Set when there are workers for `tend` to end."""
        self._running = 0
        self._most = 0
        """The most programs that ran at once lately, since `_most_at`."""
        self._most_at = 0.0

    @property
    def build(self) -> str:
        return f"{self.name} {build.read_stamp(build.COMPONENT).get('component', '')}"

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
            while len(self._idle) > self._kept():
                await self._discard(self._idle[0])

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        self._running += 1
        if self._running >= self._most_at_once():
            self._most, self._most_at = self._running, anyio.current_time()
        try:
            return await self._run(program, host_api)
        finally:
            self._running -= 1

    def _most_at_once(self) -> int:
        return self._most if anyio.current_time() - self._most_at < RECENT_SECONDS else self._running

    async def _run(self, program: Program, host_api: HostApi) -> Outcome:
        worker, scratch = await self._take(program)
        is_reusable = False
        try:
            async with self._quotas.enforced(program, scratch) as quota:
                try:
                    outcome, is_clean = await self._run_in(worker, program, host_api, quota)
                    is_reusable = is_clean and await quota.watch_end(worker.is_reusable, worker.pid)
                finally:
                    if not is_reusable:
                        await worker.kill()
            return quota.judged(outcome)
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_back(worker, program, is_reusable=is_reusable)
                await _remove_scratch(scratch)

    async def aclose(self) -> None:
        self._closed = True
        self._idle.clear()
        for worker in list(self._all):
            await self._discard(worker)

    def _kept(self) -> int:
        """How many idle workers are kept: to start one costs more processor time than a short program."""
        return max(self._warm, self._most_at_once()) if self._warm else 0

    async def _run_in(self, worker: Worker, program: Program, host_api: HostApi, quota: Quota) -> tuple[Outcome, bool]:
        channel = Channel(worker.reader, worker.stream, program, host_api)
        outcome = await quota.run(channel, worker.pid)
        if channel.is_gone:
            reason = await worker.exit_reason()
            outcome = with_reason(outcome, program.limits, reason, is_out_of_memory=worker.ran_out_of_memory(reason))
        return outcome, channel.is_clean and ended_itself(outcome)

    async def _take(self, program: Program) -> tuple[Worker, Path]:
        """A worker whose instance waits for this program's first frame, and the program's /tmp.

        Workers that died while idle, and instances made for other limits or folders, are discarded.
        """
        while True:
            was_idle = bool(self._idle)
            worker = self._idle.pop() if was_idle else await self._start_worker()
            if worker.instance is not None and not worker.instance.is_for(program):
                await self._discard(worker)
                continue
            try:
                await worker.ready()
                if worker.instance is None:
                    await worker.prepare(_make_instance(program))
                return worker, (await worker.begin()).scratch
            except SandboxUnavailable:
                await self._discard(worker)
                if not was_idle:
                    raise
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._discard(worker)
                raise

    async def _give_back(self, worker: Worker, program: Program, *, is_reusable: bool) -> None:
        """Return a worker to the pool with an instance for the next program, which probably has the same limits and
        workspace; or discard it."""
        if is_reusable and len(self._idle) < self._kept() and not self._closed:
            try:
                await worker.prepare(_make_instance(program))
            except SandboxUnavailable as error:
                _log.warning("no sandbox could be prepared for the next program: %s", error)
            else:
                if len(self._idle) < self._kept() and not self._closed:  # still, after waiting
                    self._idle.append(worker)
                    if len(self._idle) > self._warm:
                        self._has_surplus.set()
                    return
        await self._discard(worker)
        try:
            await self._fill()
        except SandboxUnavailable as error:
            _log.warning("a sandbox could not be replaced: %s", error)

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
            await _remove_scratch(instance.scratch)

    async def _native_code(self) -> Path:
        async with self._starting:
            if self._native is None:
                self._native = await anyio.to_thread.run_sync(
                    component.prepared, self._announce, abandon_on_cancel=True
                )
            return self._native


async def _remove_scratch(scratch: Path) -> None:
    try:
        os.rmdir(scratch)  # noqa: PTH106 - most programs leave it empty
    except OSError:
        await anyio.to_thread.run_sync(temporary.remove, scratch)


def _make_instance(program: Program) -> Instance:
    scratch = None
    try:
        scratch = temporary.make("tmp")
        return Instance.for_program(program, scratch)
    except OSError as error:
        if scratch is not None:
            temporary.remove(scratch)
        reason = f"no folder for a program's /tmp can be made in {tempfile.gettempdir()}: {error.strerror}"
        remedy = "where the disk is full, `codemode-server workspace clean` removes the programs' files"
        raise SandboxUnavailable(reason, remedy, is_temporary=True) from error
