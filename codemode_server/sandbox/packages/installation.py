"""Installs the packages of `sandbox.packages` and finds them again: resolve, fetch, unpack, compile, try.

    <user's cache>/codemode-server/packages/wheels/<sha256>     what was fetched
                                            <key>/files         what programs see as /packages
                                            <key>/packages.json what is in it

The key is a hash over the locked wheels, the sandbox's build and the machine, so the content of such a folder never
changes. A backend gets its packages when it starts and keeps them until it ends. If the installation failed, its
programs have no packages; the next start, or `codemode-server setup`, tries again.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import platformdirs
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.errors import SandboxFailed, SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.processes import file_lock
from codemode_server.sandbox import registry
from codemode_server.sandbox.contract import started
from codemode_server.sandbox.packages import guest_steps, locked, unpacking
from codemode_server.sandbox.packages.installed import Package, Packages
from codemode_server.sandbox.packages.locked import NotInstalled, Wheel
from codemode_server.sandbox.packages.unpacking import Unpacked
from codemode_server.sandbox.registry import Announce, SandboxSettings
from codemode_server.support import untrusted_files
from codemode_server.support.private_files import NotPrivate, private_folder, private_subfolder, replace_private
from codemode_server.support.text import counted, first_few

_log = logging.getLogger(__name__)
_LAYOUT = "1"
"""To be raised when the content of a folder is made differently, so that those of before are not used."""
_OLD_SECONDS = 90 * 86_400.0
_POLL_S = 0.2
_TURN_SECONDS = 600.0
_TRIALS_SECONDS = 300.0
"""Limit of the trials of all packages, since programs wait for them. Packages not tried by then count as importable."""
_MAKING, _RECORD, _FILES, _WHEELS, _LOCK = "making", "packages.json", "files", "wheels", "install.lock"
_Record = TypeAdapter(tuple[Package, ...])
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SETUP = "run: codemode-server setup"
_DOCTOR = "`codemode-server doctor` looks for the reason"


def find(settings: SandboxSettings) -> Packages:
    """The packages of these settings if they are installed, else the reason why not; installs nothing."""
    try:
        wheels = locked.read(Path(settings.packages_lock), settings.packages)
        found = None if wheels is None else _find(_folder() / _key(settings, wheels))
    except NotInstalled as error:
        return Packages(problem=error.reason, remedy=error.remedy)
    return found or Packages(problem=f"{first_few(settings.packages, 5)}: not installed yet", remedy=_SETUP)


async def ensure(settings: SandboxSettings, announce: Announce) -> Packages:
    """The packages of these settings, installed now if they are not. A failure is a `Packages` with a problem."""
    try:
        try:
            return await _ensure(settings, announce)
        except NotPrivate as error:
            raise NotInstalled(str(error)) from None
        except OSError as error:
            remedy = "make room on the disk, and start again" if error.errno in _FULL else ""
            raise NotInstalled(f"the folder of the packages can't be filled: {error.strerror}", remedy) from None
    except NotInstalled as error:
        return Packages(problem=error.reason, remedy=error.remedy)


async def _ensure(settings: SandboxSettings, announce: Announce) -> Packages:
    lock, folder = Path(settings.packages_lock), private_folder(_folder(), "$XDG_CACHE_HOME")
    wheels = await anyio.to_thread.run_sync(locked.read, lock, settings.packages)
    if wheels is not None and (found := _find(folder / _key(settings, wheels))):
        return found
    with ExitStack() as stack:
        await _take_turn(stack, folder / _LOCK, announce)
        making = folder / _MAKING
        files = await anyio.to_thread.run_sync(_make, making)
        try:
            return await _install(settings, lock, files, announce)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, making)


async def _install(settings: SandboxSettings, lock: Path, files: Path, announce: Announce) -> Packages:
    """Fill the empty folder and rename it to its key; the caller holds the lock."""
    making, folder = files.parent, files.parent.parent
    wheels = locked.read(lock, settings.packages)
    if wheels is None:
        announce(f"looking for versions of {first_few(settings.packages, 5)} that fit together, once")
        wheels = await locked.resolve(settings.packages, lock, making)
    target = folder / _key(settings, wheels)
    if found := _find(target):  # another product was quicker
        return found
    began = time.monotonic()
    announce(f"installing {counted(len(wheels), 'package')} for programs: {first_few([it.name for it in wheels], 5)}")
    await unpacking.fetch(wheels, private_subfolder(folder, _WHEELS))
    unpacked = await anyio.to_thread.run_sync(unpacking.unpack, wheels, folder / _WHEELS, files)
    packages = await _compile_and_try(unpacked, files, announce, is_tried=_may_use_wasm(settings))
    replace_private(making / _RECORD, _Record.dump_json(packages, indent=1))
    await anyio.to_thread.run_sync(_remove, target)  # `_find` did not accept it
    making.rename(target)
    announce(f"{counted(len(packages), 'package')} for programs installed ({time.monotonic() - began:.0f} s)")
    await anyio.to_thread.run_sync(_remove_old, folder)
    return Packages(target / _FILES, packages)


async def _compile_and_try(
    unpacked: list[Unpacked], files: Path, announce: Announce, *, is_tried: bool
) -> tuple[Package, ...]:
    """Compile the packages in the WASM sandbox, if that runs on this machine, and with `is_tried` try to import each
    there; without, none of their code runs."""
    obstacles = [""] * len(unpacked)
    try:
        backend = await started(registry.wasm_backend(Packages(files), announce))
        try:
            await guest_steps.compile_all(backend, files, unpacked)
            with anyio.move_on_after(_TRIALS_SECONDS):
                for number, it in enumerate(unpacked if is_tried else ()):
                    obstacles[number] = await guest_steps.obstacle(backend, it, unpacked)
        finally:
            with anyio.CancelScope(shield=True):
                await backend.aclose()
    except (SandboxUnavailable, SandboxFailed) as error:
        if is_tried:  # the folder would say for good that programs can import all of them
            raise NotInstalled(f"the WASM sandbox, which has to try them, does not work: {error}", _DOCTOR) from None
        _log.warning("the packages for programs are not compiled: %s", error)
    return tuple(
        Package(it.wheel.name, it.wheel.version, tuple(sorted(it.modules)), it.size_bytes, obstacle)
        for it, obstacle in zip(unpacked, obstacles, strict=True)
    )


async def _take_turn(stack: ExitStack, lock: Path, announce: Announce) -> None:
    """Wait until no other product installs packages. Raises `NotInstalled` if that takes too long: the other one may be
    suspended."""
    began, is_announced = time.monotonic(), False
    while True:
        try:
            stack.enter_context(file_lock.held(lock, timeout_s=0))
        except TimeoutError:
            if time.monotonic() - began >= _TURN_SECONDS:
                reason = f"another codemode-server has been installing packages for {_TURN_SECONDS:g} seconds"
                raise NotInstalled(reason, "end it, and start again") from None
            if not is_announced:
                announce("waiting for another codemode-server, which installs packages")
                is_announced = True
            await anyio.sleep(_POLL_S)
        else:
            return


def _folder() -> Path:
    return Path(platformdirs.user_cache_dir("codemode-server", appauthor=False)) / "packages"


def _may_use_wasm(settings: SandboxSettings) -> bool:
    """False if programs run in microVMs or not at all: then not even a trial may run in less than that."""
    return any(it.isolation is IsolationLevel.WASM for it in registry.candidates(settings))


def _key(settings: SandboxSettings, wheels: list[Wheel]) -> str:
    parts = [_LAYOUT, registry.wasm_build(), locked.PYTHON, locked.MACHINE, str(_may_use_wasm(settings))]
    parts += sorted(f"{it.name} {it.version} {it.sha256}" for it in wheels)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _find(place: Path) -> Packages | None:
    try:
        packages = _Record.validate_json((place / _RECORD).read_bytes())
        os.utime(place)
    except (OSError, ValidationError):
        return None
    return Packages(place / _FILES, packages) if (place / _FILES).is_dir() else None


def _remove_old(folder: Path) -> None:
    """Remove what no product has started with for a long time."""
    for path in [*folder.iterdir(), *(folder / _WHEELS).iterdir()]:
        with suppress(OSError):
            if path.name not in (_WHEELS, _LOCK) and path.lstat().st_mtime < time.time() - _OLD_SECONDS:
                _remove(path)


def _make(folder: Path) -> Path:
    """Make the folder anew; gives the empty one in it for the packages' files."""
    _remove(folder)
    return private_subfolder(folder.parent, folder.name, _FILES)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        untrusted_files.remove(path)
    else:
        path.unlink(missing_ok=True)
