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
import threading
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
    missing or stale, with the command that builds it, or if this Python can't decompress it."""
    component = component or build.installed_component()
    if not component.is_file():
        raise SandboxUnavailable(f"the sandbox's component {component.name!r} has not been built; run: make setup")
    if not build.is_current(component):
        raise SandboxUnavailable(
            f"the sandbox's component {component.name!r} is older than sandbox/guest; run: make setup"
        )
    if component.suffix == ".xz" and importlib.util.find_spec("_lzma") is None:
        raise SandboxUnavailable(
            f"the sandbox's component is compressed, and {sys.executable} was built without `lzma`",
            "install liblzma with its headers (Debian: apt-get install liblzma-dev) and build that Python again, "
            "or install codemode-server with another one",
        )
    return component


def native_code(component: Path, folder: Path, announce: Announce) -> Path:
    """The component's native code for this machine, compiled now if necessary. Blocks. Raises `SandboxUnavailable` if
    it cannot be compiled or stored."""
    _make_private(folder)
    target = _target(component, folder)
    if _is_sound(target):  # also in an image whose files can't be written
        return target
    announce("compiling the sandbox for this machine, once: takes 5 to 60 seconds")
    began = time.monotonic()
    with file_lock.held(folder / "compile.lock") as lock:
        if not _is_sound(target):
            _wait_compiled(_compiler(component, target, lock), target)
    announce(f"the sandbox is compiled ({time.monotonic() - began:.0f} s)")
    return target


def start_compiling(component: Path, folder: Path) -> None:
    """Begin to compile unless that is done, or being done: `native_code` waits for it, and tries again if it fails.
    Starts a process and returns; raises `SandboxUnavailable` or `OSError` if it can't."""
    _make_private(folder)
    target = _target(component, folder)
    if _is_sound(target) or sys.platform == "win32":  # there the process would not hold the lock
        return
    with contextlib.suppress(TimeoutError), file_lock.held(folder / "compile.lock", timeout_s=0) as lock:
        if not _is_sound(target):
            compiler = _compiler(component, target, lock)
            threading.Thread(target=compiler.communicate, daemon=True, name="compile").start()


def is_compiled(component: Path, folder: Path) -> bool:
    return _is_sound(_target(component, folder))


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


def _target(component: Path, folder: Path) -> Path:
    versions = [build.read_stamp(component).get("component", ""), WORKER.read_text(encoding="utf-8")]
    machine = [importlib.metadata.version("wasmtime"), sys.platform, platform.machine(), registry.processor_features()]
    key = hashlib.sha256("\0".join([*versions, *machine]).encode()).hexdigest()[:32]
    return folder / f"{key}.cwasm"


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


def _compiler(component: Path, target: Path, lock: int) -> subprocess.Popen[bytes]:
    """A process that compiles, and goes on and holds the lock even if this process ends meanwhile."""
    _forget_old(target.parent)
    command = [sys.executable, "-I", "-B", str(WORKER), "compile", str(wasmtime_folder()), str(component), str(target)]
    return subprocess.Popen(  # noqa: S603 - our own file and arguments
        command,
        env=worker_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=() if sys.platform == "win32" else (lock,),
    )


def _wait_compiled(compiler: subprocess.Popen[bytes], target: Path) -> None:
    try:
        _, errors = compiler.communicate(timeout=_COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        compiler.kill()
        compiler.communicate()
        raise SandboxUnavailable(f"compiling the sandbox took longer than {_COMPILE_SECONDS:g} seconds") from None
    if compiler.returncode != 0 or not _is_sound(target):
        reason = errors.decode(errors="replace").strip()[-500:]
        raise SandboxUnavailable(f"the sandbox can't be compiled for this machine: {reason}")


def _forget_old(folder: Path) -> None:
    """Remove what a compile that was killed has left, and native code that was compiled long ago, for other versions
    and processors; each file has 50 MB."""
    for path in [*folder.glob("compiling-*"), *folder.glob("*.cwasm")]:
        with contextlib.suppress(OSError):  # what an older version left may be a folder
            if path.suffix != ".cwasm" or path.lstat().st_mtime < time.time() - _OLD_SECONDS:
                path.unlink()


def worker_environment() -> dict[str, str]:
    """An empty environment; on Windows, with the one variable that a process needs to start."""
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" and "SYSTEMROOT" in os.environ else {}
