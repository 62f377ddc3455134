"""The files of a principal that outlive a run: their place on the host, and reads for the model.

Programs write here, so everything in it is hostile: a symbolic link in it may point anywhere. Reading never follows
one, whatever part of the path it stands in.
"""

from __future__ import annotations

import math
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.principals import Principal
from codemode_server.support.private_files import private_folder, private_subfolder
from codemode_server.support.text import clean_line, escaped
from codemode_server.support.untrusted_files import FOLDER_FLAGS, TooManyFiles, walk

_MAX_READ_BYTES = 1 << 20
_MAX_BYTES_FOR_LINES = 16 << 20
_MAX_LISTED = 1_000
_MAX_WALKED = 20_000
"""Files and folders that are looked at for changes; a workspace with more counts as changed."""
STATE, SESSIONS = "state", "sessions"
FOLDERS = (STATE, SESSIONS)
"""The folders that every workspace has: data of programs, and logs of sessions. Skills are elsewhere, since programs
could change here what a person has accepted."""
_NOT_ON_WINDOWS = "there is no /workspace on Windows; programs return values instead of writing files"


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    name: str
    is_folder: bool
    size: int
    """Bytes; 0 for a folder."""


class Workspace:
    """The folder that programs of one principal see as /workspace."""

    def __init__(self, state_folder: Path, principal: Principal) -> None:
        self._state_folder, self._name = state_folder, principal.principal_id
        self.path = state_folder / "workspaces" / self._name
        self._checked: tuple[int, ...] = ()
        """What the folder was when it was checked; while it is the same, nobody else could exchange what is above."""

    def make(self) -> Path:
        """Create it; gives its path. Raises `NotPrivate` if another user could have made it, or a link in its place;
        `OSError` if it can't be made."""
        if not self._checked or self._checked != self._identity():
            state_folder = private_folder(self._state_folder, "state.dir in upstream.yaml", is_readable=True)
            private_subfolder(state_folder, "workspaces", self._name)
            self._checked = self._identity()
        for name in FOLDERS:
            with suppress(OSError):  # a program may have put anything in its place, which is then left alone
                (self.path / name).mkdir(mode=0o700)
        return self.path

    def _identity(self) -> tuple[int, ...]:
        with suppress(OSError):
            status = self.path.lstat()
            return status.st_dev, status.st_ino, status.st_uid, status.st_mode
        return ()

    def is_complete(self) -> bool:
        """True if it exists with its folders, or with something else in their places."""
        return all(map(os.path.lexists, map(self.path.joinpath, FOLDERS)))

    def open_folder(self, name: str) -> int:
        """A descriptor of one of its folders, which is made if it is missing. No link is followed. Raises `OSError`,
        `NotPrivate` if there is something else in its place, or it can't be opened."""
        folder = os.open(self.make(), FOLDER_FLAGS)
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)

    def may_have_module(self, name: str) -> bool:
        """True if programs may be able to import a module of this name from it."""
        is_there = any(os.path.lexists(self.path / it) for it in (f"{name}.py", name))
        return is_there and sys.platform != "win32"

    def check_usable(self) -> None:
        """For the start of a product. Raises `CodemodeError` if it can't be used."""
        try:
            self.make()
        except OSError as error:
            shown = escaped(str(self.path))
            raise CodemodeError(f"the workspace {shown} can't be used: {error.strerror or error}") from error

    def newest_change(self, besides: str = "") -> float:
        """When something in it, `besides` one folder, was last changed, seconds since 1970; infinite if that takes too
        long to find out, 0 if there is nothing. A program can't choose these times."""
        try:
            entries = (it for it in walk(self.path, _MAX_WALKED) if it.path.partition("/")[0] != besides)
            return max((it.status.st_ctime for it in entries), default=0.0)
        except FileNotFoundError:
            return 0.0
        except (OSError, TooManyFiles):
            return math.inf

    def now(self) -> float:
        """The time by the clock of the file system, which may be another machine's; 0 if it can't be found out."""
        folder = self.path.parent
        try:
            os.utime(folder)
            return folder.stat().st_mtime
        except OSError:
            return 0.0

    def own_change(self) -> int | None:
        """When the folder itself was last changed, as by what was made or deleted directly in it; None if there is
        none."""
        try:
            return self.path.lstat().st_ctime_ns
        except OSError:
            return None

    def list(self, parts: tuple[str, ...]) -> list[WorkspaceEntry]:
        """Entries of a folder, by name. Raises `MetaToolError` if there is no such folder."""
        if not parts and not self.path.exists():
            return []
        descriptor = self._open(parts, is_folder=True)
        try:
            entries = []
            names = sorted(os.listdir(descriptor))  # noqa: PTH208 - by descriptor, so nothing can be swapped meanwhile
            for name in names[:_MAX_LISTED]:
                with suppress(OSError):
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    is_folder = stat.S_ISDIR(status.st_mode)
                    entries.append(WorkspaceEntry(name, is_folder, 0 if is_folder else status.st_size))
            return entries
        finally:
            os.close(descriptor)

    def read(self, parts: tuple[str, ...], for_some_lines: bool = False) -> str:
        """The text of a file in it, up to 1 MiB, or 16 MiB where only some of its lines are shown. Raises
        `MetaToolError` if there is no such file, it is too large, or it is no text."""
        descriptor = self._open(parts, is_folder=False)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise MetaToolError(f"{_shown(parts)} is no file; list it with list_dir")
        with os.fdopen(descriptor, "rb") as file:
            max_bytes = _MAX_BYTES_FOR_LINES if for_some_lines else _MAX_READ_BYTES
            if status.st_size > max_bytes:
                ways = ["read it in a program and return what matters"]
                if status.st_size <= _MAX_BYTES_FOR_LINES:
                    ways.append(f"read some lines: {_shown(parts)}:1-100")
                raise MetaToolError(f"{_shown(parts)} has {status.st_size:,} bytes; {', or '.join(ways)}")
            content = file.read(max_bytes)
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise MetaToolError(f"{_shown(parts)} is no text; read it in a program") from None

    def _open(self, parts: tuple[str, ...], *, is_folder: bool) -> int:
        """Open by walking down folder by folder, refusing links on the way."""
        if sys.platform == "win32":
            raise MetaToolError(_NOT_ON_WINDOWS)
        if not {"", ".", ".."}.isdisjoint(parts) or not {"/", "\0"}.isdisjoint("".join(parts)):
            raise MetaToolError(f"{_shown(parts)} is no path in the workspace")
        descriptor, is_last = -1, False
        last_flags = FOLDER_FLAGS if is_folder else os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.make(), FOLDER_FLAGS)
            for number, part in enumerate(parts, start=1):
                is_last = number == len(parts)
                step = os.open(part, last_flags if is_last else FOLDER_FLAGS, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = step
        except OSError:
            size = _file_size(parts[-1], descriptor) if is_last and is_folder else None
            if descriptor >= 0:
                os.close(descriptor)
            if size is not None:
                raise MetaToolError(f"{_shown(parts)} is a file ({size:,} bytes); read it with read_tool") from None
            raise MetaToolError(f"there is no {_shown(parts)}; list_dir('/workspace') shows what there is") from None
        return descriptor


def _file_size(name: str, folder: int) -> int | None:
    """Bytes; None where there is no regular file of that name."""
    with suppress(OSError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


def _shown(parts: tuple[str, ...]) -> str:
    return clean_line("/".join(("/workspace", *parts)), 200)
