"""Selects the sandbox backend with the strongest isolation that the settings allow and this machine supports."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.contract import SandboxBackend, SandboxCount
from codemode_server.sandbox.registry import BackendSpec, SandboxSettings, candidates, demand, install_packages
from codemode_server.support.background_tasks import OwnsTasks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """A started backend, and why no stronger one was started."""

    backend: SandboxBackend
    shortfall: str = ""
    """Why a backend with stronger isolation is unavailable; empty if none was tried."""


class Sandbox(OwnsTasks):
    """A backend that starts in the background; programs wait until it is ready. After a failure the next program tries
    again, so no restart is needed once the machine is fixed."""

    def __init__(self, choose: Callable[[], Awaitable[Choice]]) -> None:
        self._choose = choose
        self._choice: Choice | None = None
        self._starting = anyio.Lock()

    async def _release(self) -> None:
        if self._choice is not None:
            await self._choice.backend.aclose()

    def start_soon(self) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._prepare)

    async def ready(self) -> SandboxBackend:
        """The backend, started. Raises `SandboxUnavailable` with the reason and what to do."""
        async with self._starting:
            if self._choice is None:
                self._choice = await self._choose()
                if self._tasks is not None:
                    self._tasks.start_soon(self._choice.backend.tend)
            return self._choice.backend

    @property
    def is_starting(self) -> bool:
        return self._starting.locked()

    @property
    def level(self) -> IsolationLevel | None:
        return self._choice.backend.level if self._choice is not None else None

    @property
    def count(self) -> SandboxCount:
        return self._choice.backend.count if self._choice is not None else SandboxCount(0, 0)

    @property
    def shortfall(self) -> str:
        """Why programs do not run in stronger isolation, if that is known yet; empty if none was tried."""
        return self._choice.shortfall if self._choice is not None else ""

    async def _prepare(self) -> None:
        try:
            await self.ready()
        except SandboxUnavailable as error:
            logger.warning("%s", error)


async def choose(
    settings: SandboxSettings, limits: LimitSettings, workspace: Path | None, announce: Callable[[str], None]
) -> Choice:
    """Starts the best backend that the settings allow and this machine supports; `announce` gets lines for the person.
    Raises `SandboxUnavailable` if there is none."""
    failures: list[tuple[BackendSpec, SandboxUnavailable]] = []
    packages = await install_packages(settings, announce)
    if packages.problem:
        parts = filter(None, (packages.problem, packages.remedy))
        logger.warning("programs have no packages: %s", "; ".join(parts))
    for spec in candidates(settings):
        try:
            backend = await spec.create(settings, limits, workspace, packages, announce)
        except SandboxUnavailable as error:
            failures.append((spec, error))
            continue
        for failed, why in failures:
            more = "see `codemode-server doctor`"
            logger.warning("programs run in %s, in no %s: %s; %s", spec.sandbox, failed.sandbox, why, more)
        return Choice(backend, "; ".join(why.reason for _, why in failures))
    _, last = failures[-1]
    if demanded := demand(settings):
        raise SandboxUnavailable(
            f"`{demanded}` can't be met: {last.reason}", last.remedy, is_temporary=last.is_temporary
        )
    raise last
