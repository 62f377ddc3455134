"""Whether microVMs boot on this machine: what can be known without booting one, and what an earlier boot has shown.

Only a boot proves it (a `/dev/kvm` may be there and not work), and a boot that fails takes its time; so what one has
shown is kept in the user's cache folder, for this machine, kernel, image and microsandbox. That it works holds for as
long as these are the same; that it does not, for a day. A matter of the moment is not kept at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import stat
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio.to_thread
import platformdirs

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.private_files import NotPrivate, is_own, private_folder
from codemode_server.sandbox import processor
from codemode_server.sandbox.backends.microvm import MicrovmSettings, runtime

logger = logging.getLogger(__name__)

_FORGOTTEN_SECONDS = 180 * 86_400.0
_FAILURE_HOLDS_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a microVM boots, or why not."""

    works: bool
    reason: str = ""
    remedy: str = ""
    boot_seconds: float | None = None
    """How long the boot took that proved it."""
    is_temporary: bool = False
    """A matter of the moment (no network, disk full): never remembered."""

    @classmethod
    def of(cls, problem: runtime.Problem | SandboxUnavailable) -> Verdict:
        return cls(works=False, reason=problem.reason, remedy=problem.remedy, is_temporary=problem.is_temporary)

    @property
    def error(self) -> SandboxUnavailable:
        """A bad verdict as what to raise."""
        return SandboxUnavailable(self.reason, self.remedy, is_temporary=self.is_temporary)


async def examine(settings: MicrovmSettings) -> Verdict | None:
    """What is known without booting anything; None: nothing speaks against it, and none was booted yet."""
    if (problem := await runtime.doctor()) is not None:
        return Verdict.of(problem)
    return await anyio.to_thread.run_sync(recall, key(settings))


async def try_boot(settings: MicrovmSettings, boot: Callable[[MicrovmSettings], Awaitable[float]]) -> Verdict:
    """Boot one microVM, and remember how that went; `boot` gives the seconds it took."""
    try:
        verdict = Verdict(works=True, boot_seconds=await boot(settings))
    except SandboxUnavailable as error:
        verdict = Verdict.of(error)
    remember(key(settings), verdict)
    return verdict


def key(settings: MicrovmSettings) -> str:
    """A name for all that a verdict depends on."""
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
    """Where verdicts are kept."""
    return Path(platformdirs.user_cache_dir("codemode-server")) / "microvm"


def recall(name: str, now: Callable[[], float] = time.time) -> Verdict | None:
    """The verdict kept under a key, if there is one that still holds and nobody else could have written it."""
    path = folder() / f"{name}.json"
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        if not is_own(status) or not is_own(path.parent.lstat()):
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        verdict, at = Verdict(**kept["verdict"]), kept["at"]
        if not isinstance(verdict.works, bool):
            return None
        if verdict.works:
            return verdict
        return verdict if 0 <= now() - at < _FAILURE_HOLDS_SECONDS else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remember(name: str, verdict: Verdict, now: Callable[[], float] = time.time) -> None:
    """Keep a verdict for the next time, unless it is a matter of the moment; a cache that can't be written is none."""
    if verdict.is_temporary:
        return
    text = json.dumps({"at": now(), "verdict": asdict(verdict)})
    try:
        private_folder(folder())
        with tempfile.NamedTemporaryFile("w", dir=folder(), prefix=".", delete=False, encoding="utf-8") as file:
            file.write(text)  # 0600 from the start
        Path(file.name).replace(folder() / f"{name}.json")
        for path in folder().iterdir():  # of other kernels, versions and images; a verdict on this one is new
            if path.lstat().st_mtime < time.time() - _FORGOTTEN_SECONDS:
                path.unlink()
    except (OSError, NotPrivate) as error:
        logger.debug("the verdict on microVMs can't be kept: %s", error)
