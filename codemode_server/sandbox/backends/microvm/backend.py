"""The microsandbox backend: runs programs in microVMs.

Each program runs in a process forked from the microVM's supervisor. When the program has ended in any way, the
supervisor kills its remaining processes and empties the folders that it could write. If that fails, the microVM is
ended.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.processes.stream_readers import FrameReader
from codemode_server.sandbox.backends.microvm import image, probe_cache, runtime
from codemode_server.sandbox.backends.microvm.machine import BootFailed, Machine, destroy
from codemode_server.sandbox.backends.microvm.pool import Pool
from codemode_server.sandbox.backends.microvm.wire import WireBroken
from codemode_server.sandbox.channel import Channel, NotBegun
from codemode_server.sandbox.contract import HostApi, Outcome, Program, SandboxCount, started, with_reason
from codemode_server.sandbox.importable import STANDARD
from codemode_server.sandbox.packages.installed import NO_PACKAGES, Packages
from codemode_server.sandbox.quota import Quota, Quotas
from codemode_server.sandbox.registry import DEFAULT_IMAGE, SandboxSettings
from codemode_server.support.private_files import NotPrivate, private_folder

_log = logging.getLogger(__name__)
_BESIDE_PROGRAM_MB = 192
"""Memory of a microVM besides the program: kernel, supervisor, interpreter, part of the scratch folders."""
_AFTER_AGE_SECONDS = 60.0
_MAX_TRIES = 3
_PAUSES_S = (0.5, 5.0, 15.0, 15.0)
"""Before a boot that failed is tried again; more than once only where the machine was too busy to answer the SDK."""
_PREFIX = "codemode-"
_DIGITS = 8
"""Length of a run's name; short, since the paths of sockets in its folder must be short."""


async def create(
    settings: SandboxSettings,
    limits: LimitSettings,
    workspace: Path | None,
    packages: Packages,
    announce: Callable[[str], None],
) -> MicrovmBackend:
    """A started backend, unless a microVM is known not to boot here. Raises `SandboxUnavailable` with the reason and
    what to do."""
    known = await probe_cache.examine(settings)
    if isinstance(known, SandboxUnavailable):
        raise known
    if known is None:
        announce("trying a microVM on this machine, once")
    backend = MicrovmBackend(settings, limits, workspace, packages=packages, announce=announce)

    async def boot() -> float:
        return (await started(backend)).boot_seconds

    result = await probe_cache.try_boot(settings, boot)
    if isinstance(result, SandboxUnavailable):
        raise result
    if known is None:
        announce(f"programs run in microVMs; the first took {result:.1f} s to boot")
    return backend


async def trial_boot(settings: SandboxSettings) -> float:
    """Boots one microVM with these settings and ends it; returns the seconds until it was ready. Raises
    `SandboxUnavailable` if it can't be booted."""
    backend = await started(MicrovmBackend(settings, LimitSettings(), None))
    await backend.aclose()
    return backend.boot_seconds


class MicrovmBackend:
    """Runs programs in microVMs. `tend` must run as long as it is used; it boots microVMs in advance."""

    name = "microsandbox"
    level = IsolationLevel.MICROVM

    def __init__(
        self,
        settings: SandboxSettings,
        limits: LimitSettings,
        workspace: Path | None,
        *,
        packages: Packages = NO_PACKAGES,
        announce: Callable[[str], None] = _log.info,
    ) -> None:
        self._announce = announce
        self.packages = packages
        self.importable: frozenset[str] | None = None
        if settings.image == DEFAULT_IMAGE:
            self.importable = STANDARD | packages.modules(in_wasm=False)
        memory_mb = max(settings.memory_mb, limits.memory_mb + _BESIDE_PROGRAM_MB)
        self._settings = settings.model_copy(update={"memory_mb": memory_mb})
        longest = limits.wall_seconds + limits.upstream_seconds + _AFTER_AGE_SECONDS
        self._life_seconds = settings.age_seconds + longest  # its boot counts too, and is within the minute
        self._run = Run(runtime.home())
        self._quotas = Quotas()
        self.boot_seconds = 0.0
        """How long the first microVM took."""
        # More at once than there are processors would only make each slower, until all are out of time.
        self._boots = anyio.CapacityLimiter(os.cpu_count() or 1)
        self.pool = Pool(self._boot, workspace, settings.warm, settings.idle_seconds, settings.age_seconds)

    @property
    def count(self) -> SandboxCount:
        return self.pool.count

    async def start(self) -> None:
        await anyio.to_thread.run_sync(_load_runtime)
        self._run.open()
        if count := await self._run.clean_leftovers():
            _log.info("ended %d microVMs that an earlier run left", count)
        await image.pull(self._settings.image, self._announce)
        first = await self.pool.boot_one(self.pool.workspace)
        self.boot_seconds = first.boot_seconds
        self.pool.spare.append(first)

    async def tend(self) -> None:
        await self.pool.tend()

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        quota = await self._quotas.begin(program)
        try:
            outcome = await self._run_with(quota, program, host_api)
        finally:
            await self._quotas.end(quota)
        return quota.judged(outcome)

    async def aclose(self) -> None:
        self._run.close(is_clean=await self.pool.aclose())

    async def _boot(self, workspace: Path | None) -> Machine:
        pauses_s = list(_PAUSES_S)
        async with self._boots:
            while True:
                name, folder = self._run.next_name(), self._run.folder
                try:
                    return await Machine.boot(
                        self._settings, self._life_seconds, name, folder, workspace, self.packages.folder
                    )
                except BootFailed as error:
                    if not pauses_s:
                        raise
                    _log.info("trying once more: %s", error)
                    await anyio.sleep(pauses_s.pop(0))
                    if not error.is_answer_lost:
                        pauses_s.clear()

    async def _run_with(self, quota: Quota, program: Program, host_api: HostApi) -> Outcome:
        for _ in range(_MAX_TRIES):
            machine = await self.pool.take(program.session_id, program.workspace)
            try:
                return await self._run_in(machine, program, host_api, quota)
            except (WireBroken, NotBegun):
                _log.warning("the microVM %s ended while nothing ran in it", machine.name)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.pool.give_back(machine, None if program.is_last else program.session_id)
        raise SandboxUnavailable(
            "microVMs end before a program has begun",
            "`codemode-server doctor` looks for the reason",
            is_temporary=True,
        )

    async def _run_in(self, machine: Machine, program: Program, host_api: HostApi, quota: Quota) -> Outcome:
        """Run a program in a machine. Raises `WireBroken` if the machine was dead already, so nothing of the program
        has run."""
        limits, wire = program.limits, machine.wire
        memory_mb = min(limits.memory_mb, self._settings.memory_mb - _BESIDE_PROGRAM_MB)
        ended = None
        try:
            await wire.begin(memory_mb, limits.workspace_mb)
            channel = (program.channel or Channel)(FrameReader(wire.program), wire.program, program, host_api, b"")
            wire.on_over = quota.note_over
            outcome = await channel.run(quota, machine.pid)
            gone = wire.gone
        finally:
            wire.on_over = lambda: None
            with anyio.CancelScope(shield=True):
                ended = await machine.end_program()
        if channel.is_gone:
            reason = f"its process ended with status {str(gone.get('status'))[:20]}" if gone else "its microVM is gone"
            is_full = gone is not None and gone.get("memory") is True
            return with_reason(outcome, limits, reason, is_out_of_memory=is_full)
        if ended is not None and ended.get("over") is True:
            quota.note_over()
        return outcome


def _load_runtime() -> None:
    """Loads the SDK off the event loop, and makes it use this machine instead of a configured cloud."""
    runtime.find()
    from microsandbox import BackendKind, set_default_backend

    set_default_backend(BackendKind.LOCAL)


class Run:
    """Names and folder of one run of the product, and the cleanup after runs that crashed. Each run has a folder under
    MSB_HOME (see `processes.file_lock`), and its machines are named after it. If the process of a folder is dead, its
    machines are leftovers."""

    def __init__(self, home: Path) -> None:
        self._runs = home / "codemode"
        self._numbers = itertools.count(1)
        self._own: RunFolder | None = None

    def open(self) -> None:
        """Creates the folder and locks it. Raises `SandboxUnavailable` if it can't be made."""
        try:
            private_folder(self._runs, "MSB_HOME")
            self._own = RunFolder.make(self._runs, digits=_DIGITS)
        except OSError as error:
            raise SandboxUnavailable(
                f"the folder {self._runs} can't be used for microVMs: {error.strerror}; "
                "make it writable, or set MSB_HOME to a folder that is"
            ) from error
        except NotPrivate as error:
            raise SandboxUnavailable(f"the folder for microVMs {error}") from error

    @property
    def folder(self) -> Path:
        """The folder; it may be gone once this is closed."""
        assert self._own is not None, "it was opened"  # noqa: S101 - else a fault of ours
        return self._own.path

    def next_name(self) -> str:
        """A name that was never used: the runtime rejects the name of a machine whose owner died."""
        return f"{_PREFIX}{self.folder.name}-{next(self._numbers):04d}"

    def close(self, *, is_clean: bool) -> None:
        """Releases the folder; it stays for the next run's cleanup unless all machines are gone."""
        if self._own is not None:
            if is_clean:
                self._own.remove()
            else:
                self._own.release()

    async def clean_leftovers(self) -> int:
        """Kills and unregisters the machines of dead runs; returns their number."""
        from microsandbox import Sandbox
        from microsandbox.errors import MicrosandboxError

        dead = await anyio.to_thread.run_sync(lambda: list(abandoned(self._runs, digits=_DIGITS)))
        count, are_gone = 0, False
        try:
            if dead:
                names = [box.name for box in (await Sandbox.list()).sandboxes]
                for name in names:
                    if any(name.startswith(f"{_PREFIX}{run.path.name}-") for run in dead):
                        count += await destroy(name, None)
            are_gone = True
        except MicrosandboxError as error:
            _log.warning("microVMs that an earlier run left could not be cleaned up: %s", error)
        finally:
            for run in dead:  # otherwise the folder stays for the next cleanup
                run.remove() if are_gone else run.release()
        return count
