"""Caches whether microVMs boot on this machine.

Only a boot proves it (`/dev/kvm` may exist and not work), and a failing boot takes long. So the result is cached in the
user's cache folder for this machine, kernel, image and microsandbox version: a success without expiry, a failure for a
day. Transient failures are not cached.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio.to_thread
import platformdirs

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.private_files import NotPrivate, is_own, private_folder, replace_private
from codemode_server.sandbox import processor
from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.sandbox.registry import SandboxSettings

logger = logging.getLogger(__name__)

_FAILURE_HOLDS_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a trial boot or of checks that replace it."""

    works: bool
    reason: str = ""
    remedy: str = ""
    boot_seconds: float | None = None
    """Duration of a successful boot."""
    is_temporary: bool = False
    """True if the failure is transient (no network, disk full), and so is not cached."""

    @classmethod
    def of(cls, problem: SandboxUnavailable) -> ProbeResult:
        return cls(works=False, reason=problem.reason, remedy=problem.remedy, is_temporary=problem.is_temporary)

    @property
    def error(self) -> SandboxUnavailable:
        """The exception for a failed probe."""
        return SandboxUnavailable(self.reason, self.remedy, is_temporary=self.is_temporary)


async def examine(settings: SandboxSettings) -> ProbeResult | None:
    """The result of checks and the cache, without booting; None if every check succeeds and none was booted yet."""
    if (problem := await runtime.doctor()) is not None:
        return ProbeResult.of(problem)
    return await anyio.to_thread.run_sync(recall, key(settings))


async def try_boot(settings: SandboxSettings, boot: Callable[[SandboxSettings], Awaitable[float]]) -> ProbeResult:
    """Boots one microVM and caches the result; `boot` returns the seconds it took."""
    try:
        result = ProbeResult(works=True, boot_seconds=await boot(settings))
    except SandboxUnavailable as error:
        result = ProbeResult.of(error)
    remember(key(settings), result)
    return result


def key(settings: SandboxSettings) -> str:
    """A digest of everything that a result depends on."""
    parts = [
        runtime.version() or "",
        str(runtime.home()),
        sys.platform,
        platform.machine(),
        platform.release(),
        processor.features(),
        settings.image,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def folder() -> Path:
    """The cache folder."""
    return Path(platformdirs.user_cache_dir("codemode-server", appauthor=False)) / "microvm"


def recall(name: str, now: Callable[[], float] = time.time) -> ProbeResult | None:
    """The cached result, unless it has expired or somebody else could have written it."""
    path = folder() / f"{name}.json"
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        if not is_own(status) or not is_own(path.parent.lstat()):
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        result, at = ProbeResult(**kept["verdict"]), kept["at"]
        if not isinstance(result.works, bool):
            return None
        if result.works:
            return result
        return result if 0 <= now() - at < _FAILURE_HOLDS_SECONDS else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remember(name: str, result: ProbeResult, now: Callable[[], float] = time.time) -> None:
    """Caches a result unless it is temporary; an unwritable cache is ignored."""
    if result.is_temporary:
        return
    text = json.dumps({"at": now(), "verdict": asdict(result)})
    try:
        private_folder(folder())
        replace_private(folder() / f"{name}.json", text.encode())
    except (OSError, NotPrivate) as error:
        logger.debug("the probe result of microVMs can't be cached: %s", error)
