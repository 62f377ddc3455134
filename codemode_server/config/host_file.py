"""Reads and replaces a host's file: only the person's own, bounded, atomically, and with its mode kept.

A link is followed if its target is in the same home or project folder, and the target is what is replaced. A repository
can't make us edit a file outside of it.
"""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from codemode_server.config.file_edits import KeyPath, NotEditable, Syntax
from codemode_server.config.file_writing import write_copy, written_beside
from codemode_server.config.host_reading import MAX_HOST_FILE_BYTES
from codemode_server.config.places import digest
from codemode_server.support.file_records import FileRecord

MAX_BYTES = {"json": MAX_HOST_FILE_BYTES, "toml": 2**20, "yaml": 2**20}
SUFFIX = ".before-codemode"


@dataclass(frozen=True, slots=True)
class HostFile:
    path: Path
    """Without links."""
    is_link: bool
    content: bytes | None = field(repr=False)
    """None if there is no such file."""
    mode: int = 0o600
    group: int = -1

    @property
    def digest(self) -> str:
        """SHA-256; empty if there is no such file."""
        return digest(self.content)

    def text(self) -> str:
        """Raises `NotEditable` if it is not UTF-8."""
        content = self.content or b""
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise NotEditable(f"line {line}: it is not UTF-8 here") from None


class ConnectRecord(FileRecord):
    folder: ClassVar[str] = "connected"
    before: str
    """SHA-256 before our first change; empty if there was no file."""
    after: str
    """SHA-256 after our last change."""
    backup: Path | None = None
    """The file's first content; None if there was no file."""
    removed: list[tuple[KeyPath, Any]] = Field(default=[])
    """The entries that `connect` took out, with their paths."""
    is_mixed: bool = False
    """True if somebody else changed the file between two changes of ours, so that `backup` lacks that."""


def read_file(named: Path, within: Path, syntax: Syntax) -> HostFile:
    """Read the file. Links may not lead out of `within`, or, for a path outside of that, out of the file's folder."""
    named = Path(os.path.abspath(named))  # noqa: PTH100 - links are looked at below
    root = within if named.is_relative_to(within) else named.parent
    try:
        path, real_root = named.resolve(), root.resolve()
    except (OSError, RuntimeError) as error:
        raise NotEditable(f"it can't be read: {getattr(error, 'strerror', None) or error}") from None
    if not path.is_relative_to(real_root):
        raise NotEditable(f"it leads to {path}, which is outside of {root}; edit that file by hand")
    is_link = path.relative_to(real_root) != named.relative_to(root)
    content, status = _read(path, MAX_BYTES[syntax])
    if status is None:
        if named.is_symlink():
            raise NotEditable("it is a link to a file that does not exist; remove the link")
        return HostFile(path, is_link, None)
    return HostFile(path, is_link, content, stat.S_IMODE(status.st_mode), status.st_gid)


def read_plain(path: Path) -> bytes | None:
    """Content of this user's regular file, which is no link; None if there is none. Raises `NotEditable`."""
    return _read(path, MAX_BYTES["json"])[0]


def replace_file(file: HostFile, content: bytes) -> None:
    """Replace the file by `content`, unless it has changed since it was read. Raises `NotEditable`."""
    try:
        file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_beside(file.path, content, file.mode, file.group) as written:
            _check_unchanged(file)
            written.replace(file.path)
    except OSError as error:
        raise NotEditable(f"it can't be written: {error.strerror}") from None


def remove_file(file: HostFile) -> None:
    """Remove a file that we made. Raises `NotEditable`."""
    try:
        _check_unchanged(file)
        file.path.unlink()
    except OSError as error:
        raise NotEditable(f"it can't be removed: {error.strerror}") from None


def write_backup(file: HostFile) -> Path | None:
    """A copy beside the file, with its mode; None if there is no file. Raises `NotEditable`."""
    try:
        return None if file.content is None else write_copy(file.path, file.content, SUFFIX, file.mode, file.group)
    except OSError as error:
        raise NotEditable(f"the backup can't be written: {error.strerror}") from None


def _read(path: Path, max_bytes: int) -> tuple[bytes | None, os.stat_result | None]:
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = open(path, "rb", opener=lambda it, flags: os.open(it, flags | careful))  # noqa: SIM115
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise NotEditable(f"it can't be read: {error.strerror}") from None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotEditable("it is not a regular file")
        if sys.platform != "win32" and status.st_uid != os.geteuid():
            raise NotEditable("it belongs to another user; run this as that user")
        if not status.st_mode & stat.S_IWUSR:
            raise NotEditable("it is read-only; make it writable first")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise NotEditable(f"it is larger than {max_bytes // 2**20} MiB")
    return content, status


def _check_unchanged(file: HostFile) -> None:
    if read_plain(file.path) != file.content:
        raise NotEditable("it has changed meanwhile, so nothing was written; run the command again")
