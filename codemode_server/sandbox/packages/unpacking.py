"""Fetches wheels and unpacks them. Wheels are untrusted: only their modules and data are written, never outside of the
folder, and nothing in them is run.

Scripts, `.pth` files and modules that Python runs when it starts are left out. A wheel with a link, a path out of the
folder, a module of a name that the standard library or the sandbox has, or more bytes or files than allowed makes the
installation fail.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread
import httpx2

from codemode_server.sandbox.importable import RESERVED
from codemode_server.sandbox.packages.locked import NO_NETWORK, NotInstalled, Wheel
from codemode_server.support.text import one_line

MAX_WHEEL_BYTES = 512 * 2**20
MAX_BYTES = 2 * 2**30
"""Limit of all unpacked files together, as `MAX_FILES` is, and of all downloads together."""
MAX_FILES = 50_000
_MAX_DIRECTORY_BYTES = 5 * 2**20
"""Limit of a wheel's table of contents."""
_MAX_PATH_BYTES = 240
_MAX_DOWNLOADS = 4
_TIMEOUT_S = 30.0
_MAX_SECONDS = 600.0
"""For all downloads: an index could send one byte after another, and programs wait."""
_CHUNK = 2**18
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x07"
_DATA = re.compile(r"[^/]+\.data/(purelib|platlib)/(.+)")
_NOT_WANTED = frozenset({"sitecustomize.py", "usercustomize.py", "tests", "test", "docs", "examples", "__pycache__"})
"""Files and folders at the top of a wheel that no program imports."""
_NATIVE = (".so", ".pyd", ".dylib")
_REMEDY = "take the package from sandbox.packages"


async def fetch(wheels: list[Wheel], folder: Path) -> None:
    """Have each wheel in the folder, under its SHA-256. Raises `NotInstalled`, `OSError`."""
    limiter = anyio.CapacityLimiter(_MAX_DOWNLOADS)
    failures: list[NotInstalled | OSError] = []
    size = 0
    headers = {"Accept-Encoding": "identity"}  # the hash is of the file as it is
    async with httpx2.AsyncClient(follow_redirects=True, timeout=_TIMEOUT_S, headers=headers) as client:

        async def one(wheel: Wheel) -> None:
            nonlocal size
            path = folder / wheel.sha256
            async with limiter:
                try:
                    if not await anyio.to_thread.run_sync(_is_there, wheel, path):
                        await _download(client, wheel, path)
                    size += path.stat().st_size
                    if size > MAX_BYTES:
                        raise _refused(wheel, f"brings the packages to more than {MAX_BYTES // 2**30} GiB")
                except (NotInstalled, OSError) as error:
                    failures.append(error)
                    tasks.cancel_scope.cancel()

        with anyio.move_on_after(_MAX_SECONDS) as time_limit:
            async with anyio.create_task_group() as tasks:
                for wheel in wheels:
                    tasks.start_soon(one, wheel)
    if failures:
        raise failures[0]
    if time_limit.cancelled_caught:
        raise NotInstalled(f"the packages can't be downloaded in {_MAX_SECONDS:g} seconds", NO_NETWORK)


def _is_there(wheel: Wheel, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != wheel.sha256:
                return False
    except FileNotFoundError:
        return False
    os.utime(path)
    return True


async def _download(client: httpx2.AsyncClient, wheel: Wheel, path: Path) -> None:
    digest, size, unfinished = hashlib.sha256(), 0, path.with_suffix(".part")
    most = MAX_WHEEL_BYTES if wheel.size is None else wheel.size
    if most > MAX_WHEEL_BYTES:
        raise _refused(wheel, f"is larger than {MAX_WHEEL_BYTES // 2**20} MiB")
    try:
        async with client.stream("GET", wheel.url) as response, await anyio.open_file(unfinished, "wb") as file:
            response.raise_for_status()
            async for chunk in response.aiter_raw(_CHUNK):
                size += len(chunk)
                if size > most:
                    raise _refused(wheel, "is larger than its lock says", "remove the lock to have others")
                digest.update(chunk)
                await file.write(chunk)
        if digest.hexdigest() != wheel.sha256:
            raise _refused(wheel, "is not the file that the lock has the hash of", "remove the lock to have another")
        unfinished.replace(path)
    except httpx2.HTTPStatusError as error:
        raise _refused(wheel, f"can't be downloaded: status {error.response.status_code}", "try again") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = one_line(str(error)) or type(error).__name__
        raise _refused(wheel, f"can't be downloaded: {why}", NO_NETWORK) from None
    finally:
        unfinished.unlink(missing_ok=True)


@dataclass(slots=True)
class Unpacked:
    """The files of one wheel in the folder."""

    wheel: Wheel
    files: list[str] = field(default_factory=list)
    """Paths in the folder, of modules in Python only."""
    modules: set[str] = field(default_factory=set)
    size_bytes: int = 0
    is_native: bool = False


def unpack(wheels: list[Wheel], source: Path, target: Path) -> list[Unpacked]:
    """Unpack fetched wheels into a new, empty folder. Blocks. Raises `NotInstalled`, `OSError`."""
    folder = _Folder(target)
    return [folder.add(wheel, source / wheel.sha256) for wheel in wheels]


class _Folder:
    """The folder that is filled, with the bounds for all packages together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owners: dict[str, tuple[str, Wheel]] = {}
        """The path as it was written and the wheel that brought it, by the path without case: no two names may differ
        by case only."""
        self._importable: dict[str, Wheel] = {}
        """The wheel that brought a module, by the module's path without `.py`, `.so` or `/__init__.py`: Python imports
        only one of those."""
        self._bytes = 0
        self._files = 0

    def add(self, wheel: Wheel, source: Path) -> Unpacked:
        unpacked = Unpacked(wheel)
        try:
            with source.open("rb") as file:
                _check_directory(wheel, file)
                with zipfile.ZipFile(file) as archive:
                    for info, path in self._checked(wheel, archive):
                        self._write(unpacked, archive, info, path)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            EOFError,
            ValueError,
            zlib.error,
            struct.error,
        ) as error:
            raise _refused(wheel, f"is a broken archive: {one_line(str(error))}") from None
        except OSError as error:
            if error.errno != errno.EINVAL:  # it names a place before its beginning
                raise
            raise _refused(wheel, "is a broken archive") from None
        return unpacked

    def _checked(self, wheel: Wheel, archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, str]]:
        """The files of a wheel to write, with their paths in the folder. Checks all of them before it yields one."""
        chosen = []
        for info in archive.infolist():
            self._files += 1
            self._bytes += info.file_size
            if self._files > MAX_FILES:
                raise _refused(wheel, f"brings the packages to more than {MAX_FILES:,} files")
            if self._bytes > MAX_BYTES:
                raise _refused(wheel, f"brings the packages to more than {MAX_BYTES // 2**30} GiB")
            path = _path_in_folder(wheel, info)
            if path is not None:
                chosen.append((info, path))
        yield from chosen

    def _write(self, unpacked: Unpacked, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> None:
        wheel, target = unpacked.wheel, self._path / path
        if self._is_written(wheel, archive, info, path):
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _refused(wheel, f"has {_shown(path)} in what is a file") from None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        size = 0
        with archive.open(info) as packed, os.fdopen(os.open(target, flags, 0o644), "wb") as file:
            while chunk := packed.read(_CHUNK):
                size += len(chunk)
                if size > info.file_size:
                    raise _refused(wheel, f"has more in {_shown(path)} than it declares")
                file.write(chunk)
        unpacked.size_bytes += size
        unpacked.is_native = unpacked.is_native or path.endswith(_NATIVE)
        if path.endswith(".py"):
            unpacked.files.append(path)
        if module := _module(path):
            unpacked.modules.add(module)

    def _is_written(self, wheel: Wheel, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bool:
        """True if another package has the same file with the same content, which is there then. Raises `NotInstalled`
        if the content or the case of the name differs."""
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            place = "/".join(parts[:length])
            first, owner = self._owners.setdefault(unicodedata.normalize("NFKC", place).casefold(), (place, wheel))
            if first != place:
                raise _refused(wheel, f"has {_shown(place)}, which {owner.name} has as {_shown(first)}")
        target = self._path / path
        if not target.exists():
            name = _imported_as(path)
            if name and (other := self._importable.setdefault(name, wheel)) is not wheel:
                raise _refused(wheel, f"has {_shown(path)}, a module that {other.name} has")
            return False
        if target.is_file() and target.stat().st_size == info.file_size:
            with archive.open(info) as packed, target.open("rb") as there:
                if owner is not wheel and _are_equal(packed, there):
                    return True
        raise _refused(
            wheel, f"has {_shown(path)} twice" if owner is wheel else f"and {owner.name} have {_shown(path)}"
        )


def _check_directory(wheel: Wheel, file: IO[bytes]) -> None:
    """Refuse a table of contents that is too large, since `zipfile` reads it into memory whatever its size."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 42))
    tail = file.read(42)
    if len(tail) < 22 or tail[-22:-18] != _END or tail[-2:] != b"\0\0" or tail[:4] == _END_64:
        raise _refused(wheel, "is no zip archive of the usual form")
    if int.from_bytes(tail[-10:-6], "little") > _MAX_DIRECTORY_BYTES:
        raise _refused(wheel, f"brings the packages to more than {MAX_FILES:,} files")


def _path_in_folder(wheel: Wheel, info: zipfile.ZipInfo) -> str | None:
    """Where a file of the wheel is written; None if it is left out. Raises `NotInstalled`."""
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(wheel, f"has a link or device, {_shown(name)}")
    if any(it in ("", ".", "..") for it in parts) or re.search(r'[\\:*?"<>|]', name) or not name.isprintable():
        raise _refused(wheel, f"has a file with the path {_shown(name)}")
    if len(name.encode()) > _MAX_PATH_BYTES:
        raise _refused(wheel, f"has a path of more than {_MAX_PATH_BYTES} bytes")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # which others unpack without a bound
        raise _refused(wheel, "is packed in an unusual way")
    if name.endswith("/"):
        return None
    if data := _DATA.fullmatch(name):
        name = data[2]
        parts = name.split("/")
    elif len(parts) > 1 and parts[0].endswith(".data"):
        return None
    if parts[0] in _NOT_WANTED or name.endswith((".pth", ".pyc")) or "__pycache__" in parts:
        return None
    module = parts[0] if len(parts) > 1 else _module(name)
    if module in RESERVED:
        raise _refused(wheel, f"would replace the module {module!r} of the sandbox")
    return name


def _module(path: str) -> str:
    """The top-level module that a file belongs to; empty if it belongs to none."""
    first, _, rest = path.partition("/")
    if not path.endswith((".py", *_NATIVE)):
        return ""
    name = first if rest else first.partition(".")[0]
    return name if name.isidentifier() else ""


def _imported_as(path: str) -> str:
    """The path of a module without its suffix or `/__init__`; empty if the file is no module."""
    if not path.endswith((".py", *_NATIVE)):
        return ""
    folder, _, name = path.rpartition("/")
    name = name.partition(".")[0]
    return folder if name == "__init__" else f"{folder}/{name}".lstrip("/")


def _are_equal(one: IO[bytes], other: IO[bytes]) -> bool:
    while (chunk := one.read(_CHUNK)) == other.read(_CHUNK):
        if not chunk:
            return True
    return False


def _shown(path: str) -> str:
    return repr(one_line(path, 100))


def _refused(wheel: Wheel, why: str, remedy: str = _REMEDY) -> NotInstalled:
    return NotInstalled(f"the package {wheel.name} {wheel.version} {why}", remedy)
