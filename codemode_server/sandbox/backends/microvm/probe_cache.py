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
from pathlib import Path
from typing import Any

import anyio.to_thread
import platformdirs

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox import registry
from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.sandbox.registry import SandboxSettings
from codemode_server.support.private_files import NotPrivate, is_own, private_folder, replace_private

logger = logging.getLogger(__name__)

_FAILURE_HOLDS_SECONDS = 24 * 3600.0


BootResult = float | SandboxUnavailable
"""The seconds that a boot took, or why none succeeds."""


async def examine(settings: SandboxSettings) -> BootResult | None:
    """The result of checks and the cache, without booting; None if every check succeeds and none was booted yet."""
    return await runtime.doctor() or await anyio.to_thread.run_sync(recall, key(settings))


async def try_boot(settings: SandboxSettings, boot: Callable[[], Awaitable[float]]) -> BootResult:
    """Boots one microVM and caches the result; `boot` returns the seconds it took."""
    result: BootResult
    try:
        result = await boot()
    except SandboxUnavailable as error:
        result = error
    remember(key(settings), result)
    return result


def key(settings: SandboxSettings) -> str:
    machine = (sys.platform, platform.machine(), platform.release(), registry.processor_features())
    parts = [runtime.version() or "", str(runtime.home()), *machine, settings.image]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def folder() -> Path:
    return Path(platformdirs.user_cache_dir("codemode-server", appauthor=False)) / "microvm"


def recall(name: str, now: Callable[[], float] = time.time) -> BootResult | None:
    """The cached result, unless it has expired or somebody else could have written it."""
    path = folder() / f"{name}.json"
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not is_own(status) or not is_own(path.parent.lstat()):
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        if (seconds := stored["boot_seconds"]) is not None:
            return float(seconds)
        is_recent = 0 <= now() - stored["at"] < _FAILURE_HOLDS_SECONDS
        return SandboxUnavailable(stored["reason"], stored["remedy"]) if is_recent else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remember(name: str, result: BootResult, now: Callable[[], float] = time.time) -> None:
    """Caches a result unless it is a temporary failure; an unwritable cache is ignored."""
    if isinstance(result, float):
        stored: dict[str, Any] = {"boot_seconds": result}
    elif result.is_temporary:
        return
    else:
        stored = {"boot_seconds": None, "at": now(), "reason": result.reason, "remedy": result.remedy}
    try:
        private_folder(folder())
        replace_private(folder() / f"{name}.json", json.dumps(stored).encode())
    except (OSError, NotPrivate) as error:
        logger.debug("the probe result of microVMs can't be cached: %s", error)
