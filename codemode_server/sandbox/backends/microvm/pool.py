"""Assigns microVMs to programs: one of the same session, a spare one, or a new one; never another session's.

A machine belongs to the session of its first program and runs one program at a time; a session with concurrent programs
has several. `tend` boots spare machines in the background and ends those that are too old or idle for too long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm.machine import Machine
from codemode_server.sandbox.contract import SandboxCount

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 30.0
_CLOSE_SECONDS = 1.5
_MAX_IDLE = 8
"""Maximum number of machines that wait for their sessions' next program; the least recently used is ended."""

Key = tuple[str, Path | None]
"""A session, and the workspace bound in its machines."""


@dataclass(slots=True)
class Pool:
    """Booted machines. `boot` boots one for a workspace; `spare` are reserved for new sessions."""

    boot: Callable[[Path | None], Awaitable[Machine]]
    workspace: Path | None
    """The workspace of spare machines."""
    size: int
    idle_seconds: float
    age_seconds: float
    spare: list[Machine] = field(default_factory=list)
    of_sessions: dict[Key, list[Machine]] = field(default_factory=dict)
    _all: set[Machine] = field(default_factory=set)
    _booting: int = 0
    _claimed: int = 0
    _is_closed: bool = False
    _wanted: anyio.Event = field(default_factory=anyio.Event)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def count(self) -> SandboxCount:
        idle = len(self.spare) + sum(len(machines) for machines in self.of_sessions.values())
        return SandboxCount(idle=idle, busy=len(self._all) - idle)

    async def take(self, session_id: str, workspace: Path | None) -> Machine:
        """A machine for one program of a session. Raises `SandboxUnavailable` if none can be booted."""
        waiting = self.of_sessions.get((session_id, workspace), [])
        while waiting:
            machine = waiting.pop()
            if self._is_fit(machine):
                return machine
            await self._end(machine)
        spare = await self._spare_one() if workspace == self.workspace else None
        if spare is not None:
            return spare
        return await self.boot_one(workspace)

    async def give_back(self, machine: Machine, session_id: str | None) -> None:
        """Returns a machine to its session, or ends it; None is a session without further programs."""
        if session_id is None or not self._is_fit(machine) or self._is_closed:
            await self._end(machine)
            return
        self.of_sessions.setdefault((session_id, machine.workspace), []).append(machine)
        idle = [machine for machines in self.of_sessions.values() for machine in machines]
        if len(idle) > _MAX_IDLE:
            await self._drop(min(idle, key=lambda machine: machine.used_at))

    async def tend(self) -> None:
        """Replaces spare machines that were taken and ends old or idle ones, until cancelled."""
        while True:
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            for machine in [*self.spare, *(machine for machines in self.of_sessions.values() for machine in machines)]:
                if not self._is_fit(machine):
                    await self._drop(machine)
            try:
                missing = self.size - len(self.spare) - self._booting + self._claimed
                async with anyio.create_task_group() as tasks:
                    for _ in range(missing):
                        tasks.start_soon(self._boot_spare)
            except* SandboxUnavailable as errors:
                _log.warning("no microVM could be booted ahead: %s", errors.exceptions[0])
                await anyio.sleep(_RETRY_SECONDS)

    async def boot_one(self, workspace: Path | None) -> Machine:
        """A new machine, which ends with the pool at the latest."""
        if self._is_closed:
            raise SandboxUnavailable("the sandbox is closed")
        machine = await self.boot(workspace)
        self._all.add(machine)
        if self._is_closed:
            await self._end(machine)
            raise SandboxUnavailable("the sandbox is closed")
        return machine

    async def aclose(self) -> bool:
        """Ends all machines within the time that hosts allow; returns whether all are gone."""
        self._is_closed = True
        machines = list(self._all)
        async with anyio.create_task_group() as tasks:
            for machine in machines:
                tasks.start_soon(machine.kill, _CLOSE_SECONDS)
        self.spare.clear()
        self.of_sessions.clear()
        self._all.clear()
        return all(machine.is_gone for machine in machines)

    async def _spare_one(self) -> Machine | None:
        """A spare machine that is booted, or is being booted without anyone waiting for it."""
        self._wanted.set()
        if not self.spare and self._booting > self._claimed:
            self._claimed += 1
            try:
                while not self.spare and self._booting >= self._claimed:
                    await self._changed.wait()
            finally:
                self._claimed -= 1
        while self.spare:
            is_fit, machine = self._is_fit(self.spare[0]), self.spare.pop(0)
            if is_fit:
                return machine
            await self._end(machine)
        return None

    async def _boot_spare(self) -> None:
        self._booting += 1
        try:
            machine = await self.boot_one(self.workspace)
            self.spare.append(machine)
        finally:
            self._booting -= 1
            self._changed.set()
            self._changed = anyio.Event()

    def _is_fit(self, machine: Machine) -> bool:
        now = time.monotonic()
        is_spare = machine in self.spare
        is_young = now - machine.born_at < self.age_seconds
        return machine.is_alive and is_young and (is_spare or now - machine.used_at < self.idle_seconds)

    async def _drop(self, machine: Machine) -> None:
        for waiting in (self.spare, *self.of_sessions.values()):
            if machine in waiting:
                waiting.remove(machine)
        self.of_sessions = {key: machines for key, machines in self.of_sessions.items() if machines}
        await self._end(machine)

    async def _end(self, machine: Machine) -> None:
        with anyio.CancelScope(shield=True):
            await machine.kill()
        self._all.discard(machine)
