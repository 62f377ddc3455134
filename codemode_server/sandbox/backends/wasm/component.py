"""Finds the component and compiles it to this machine's native code, once.

Native code depends on the component, on wasmtime and on the processor, so it is compiled at first use and stored in the
user's cache folder: the folder has mode 0700, the file 0600. Code that somebody else owns or could have written is
compiled again. Two products that compile at the same time wait for one another.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import stat
import subprocess
import sys
import time
from pathlib import Path

import anyio.to_thread
import platformdirs

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.processes import file_lock
from codemode_server.sandbox import registry
from codemode_server.sandbox.backends.wasm import build
from codemode_server.sandbox.registry import Announce, Check, Diagnosis
from codemode_server.support.private_files import NotPrivate, is_own, private_folder

WORKER = Path(__file__).resolve().with_name("worker.py")
_COMPILE_SECONDS = 600.0
_OLD_SECONDS = 180 * 86_400.0


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("codemode-server", appauthor=False)) / "wasm"


def wasmtime_folder() -> Path:
    """The folder from which the worker imports wasmtime."""
    spec = importlib.util.find_spec("wasmtime")
    if spec is None or spec.origin is None:
        raise SandboxUnavailable("the package 'wasmtime' is not installed; install codemode-server again")
    return Path(spec.origin).parent.parent


def checked_component(component: Path | None = None) -> Path:
    """The component, if it is there and was built from the current sources. Raises `SandboxUnavailable` if it is
    missing or stale; the message has the command that builds it."""
    component = component or build.installed_component()
    if not component.is_file():
        raise SandboxUnavailable(f"the sandbox's component {component.name!r} has not been built; run: make setup")
    if not build.is_current(component):
        raise SandboxUnavailable(
            f"the sandbox's component {component.name!r} is older than sandbox/guest; run: make setup"
        )
    return component


def native_code(component: Path, folder: Path, announce: Announce) -> Path:
    """The component's native code for this machine, compiled now if necessary. Blocks. Raises `SandboxUnavailable` if
    it cannot be compiled or stored."""
    _make_private(folder)
    target = folder / f"{_key(component)}.cwasm"
    if _is_sound(target):  # also in an image whose files can't be written
        return target
    with file_lock.held(folder / "compile.lock") as lock:
        if not _is_sound(target):
            announce("compiling the sandbox for this machine, once: takes 10 to 60 seconds")
            began = time.monotonic()
            _compile(component, target, lock)
            announce(f"the sandbox is compiled ({time.monotonic() - began:.0f} s)")
            with contextlib.suppress(OSError):
                _forget_old(folder)
    return target


def is_compiled(component: Path, folder: Path) -> bool:
    return _is_sound(folder / f"{_key(component)}.cwasm")


def prepared(announce: Announce) -> Path:
    return native_code(checked_component(), cache_folder(), announce)


async def diagnose() -> Diagnosis:
    try:
        wasmtime_folder()
        is_ready = await anyio.to_thread.run_sync(_is_prepared)
    except SandboxUnavailable as error:
        return Diagnosis((Check("wasm", "missing", error.reason, error.remedy),))
    when = "" if is_ready else " at its first use, or by codemode-server setup"
    return Diagnosis((Check("wasm", "ok", f"compiled for this machine{when}"),), "wasm")


async def prepare(announce: Announce) -> Check:
    try:
        if await anyio.to_thread.run_sync(_is_prepared):
            return Check("wasm", "ok", "was compiled already")
        await anyio.to_thread.run_sync(prepared, announce)
    except SandboxUnavailable as error:
        return Check("wasm", "failed", str(error))
    return Check("wasm", "ok", "compiled for this machine")


def _is_prepared() -> bool:
    return is_compiled(checked_component(), cache_folder())


def _key(component: Path) -> str:
    versions = [build.read_stamp(component).get("component", ""), WORKER.read_text(encoding="utf-8")]
    machine = [importlib.metadata.version("wasmtime"), sys.platform, platform.machine(), registry.processor_features()]
    return hashlib.sha256("\0".join([*versions, *machine]).encode()).hexdigest()[:32]


def _make_private(folder: Path) -> None:
    try:
        private_folder(folder, "$XDG_CACHE_HOME")
    except NotPrivate as error:
        raise SandboxUnavailable(f"the cache folder {error}") from error
    except OSError as error:
        raise SandboxUnavailable(f"the cache folder '{folder}' can't be used: {error.strerror}") from error


def _is_sound(target: Path) -> bool:
    """True if native code exists, and only this user can access it."""
    try:
        status = target.lstat()
    except OSError:
        return False
    is_private = sys.platform == "win32" or not status.st_mode & 0o077
    return stat.S_ISREG(status.st_mode) and is_own(status) and is_private


def _compile(component: Path, target: Path, lock: int) -> None:
    """Compile in a process that continues, and holds the lock, even if this process ends meanwhile."""
    for unfinished in target.parent.glob("compiling-*"):
        with contextlib.suppress(OSError):  # what an older version left may be a folder
            unfinished.unlink()
    command = [sys.executable, "-I", "-B", str(WORKER), "compile", str(wasmtime_folder()), str(component), str(target)]
    try:
        run = subprocess.run(  # noqa: S603 - our own file and arguments
            command,
            env=worker_environment(),
            check=False,
            capture_output=True,
            timeout=_COMPILE_SECONDS,
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else (lock,),
        )
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(f"compiling the sandbox took longer than {_COMPILE_SECONDS:g} seconds") from None
    if run.returncode != 0 or not _is_sound(target):
        reason = run.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxUnavailable(f"the sandbox can't be compiled for this machine: {reason}")


def _forget_old(folder: Path) -> None:
    """Remove native code that was compiled long ago, for other versions and processors; each file has 50 MB."""
    for path in folder.glob("*.cwasm"):
        if path.lstat().st_mtime < time.time() - _OLD_SECONDS:
            path.unlink()


def worker_environment() -> dict[str, str]:
    """An empty environment; on Windows, with the one variable that a process needs to start."""
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" and "SYSTEMROOT" in os.environ else {}
