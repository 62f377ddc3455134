"""Reads and replaces a host's file: only the person's own, bounded, atomically, and with its mode kept.

A link is followed if its target is in the same home or project folder, as with folders of dotfiles; the target is then
what is replaced, so that the link stays. A repository can't make us edit a file outside of it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.config.file_edits import NotEditable, Syntax

MAX_BYTES = {"json": 16 * 2**20, "toml": 2**20, "yaml": 2**20}
"""Claude Code keeps the history of its projects in the same file as its servers."""
_SUFFIX = ".before-codemode"
_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class HostFile:
    """A host's file as it was read."""

    path: Path
    """Without links."""
    is_link: bool
    """True if the host's path is a link to it."""
    content: bytes | None = field(repr=False)
    """None if there is no such file."""
    mode: int = 0o600
    group: int = -1

    @property
    def digest(self) -> str:
        """SHA-256; empty if there is no such file."""
        return "" if self.content is None else digest_of(self.content)

    def text(self) -> str:
        """Raises `NotEditable` if it is not UTF-8."""
        content = self.content or b""
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise NotEditable(f"line {line}: it is not UTF-8 here") from None


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_file(named: Path, within: Path, syntax: Syntax) -> HostFile:
    """Read the file. Links may not lead out of `within`, or, for a path outside of that, out of the file's folder.

    Raises:
        NotEditable: it is somebody else's, too large, or leads elsewhere.
    """
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


def read_plain(path: Path, syntax: Syntax) -> bytes | None:
    """Content of this user's regular file, which is no link; None if there is none. Raises `NotEditable`."""
    content, status = _read(path, MAX_BYTES[syntax])
    return content if status is not None else None


def _read(path: Path, max_bytes: int) -> tuple[bytes, os.stat_result | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOT_FOLLOWED | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return b"", None
    except OSError as error:
        raise NotEditable(f"it can't be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        _check(status)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise NotEditable(f"it is larger than {max_bytes // 2**20} MiB")
    return content, status


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotEditable("it is not a regular file")
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        raise NotEditable("it belongs to another user; run this as that user")
    if not status.st_mode & stat.S_IWUSR:
        raise NotEditable("it is read-only; make it writable first")


def make_folders(file: HostFile) -> list[Path]:
    """Make the folder of a new file; gives those that were made, the innermost first."""
    missing = [folder for folder in file.path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700)
    return missing


def replace_file(file: HostFile, content: bytes) -> None:
    """Replace the file by `content`, unless it has changed since it was read.

    Raises:
        NotEditable: it has changed, or can't be written.
    """
    temporary = file.path.with_name(f".{file.path.name}.{secrets.token_hex(6)}")
    try:
        _write_new(temporary, content, file)
        _check_unchanged(file)
        temporary.replace(file.path)
    except OSError as error:
        raise NotEditable(f"it can't be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def remove_file(file: HostFile, folders: list[Path]) -> None:
    """Remove a file that we made, and those folders that we made and that are empty."""
    try:
        _check_unchanged(file)
        file.path.unlink()
    except OSError as error:
        raise NotEditable(f"it can't be removed: {error.strerror}") from None
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def write_backup(file: HostFile) -> Path | None:
    """A copy beside the file, which only those can read who can read the file; none if there is no file.

    Raises:
        NotEditable: it can't be written.
    """
    if file.content is None:
        return None
    for number in range(1000):
        backup = file.path.with_name(f"{file.path.name}{_SUFFIX}{f'-{number}' if number else ''}")
        try:
            _write_new(backup, file.content, file)
        except FileExistsError:
            continue
        except OSError as error:
            raise NotEditable(f"the backup {backup} can't be written: {error.strerror}") from None
        return backup
    raise NotEditable(f"there are too many backups beside {file.path}; remove some")


def _write_new(path: Path, content: bytes, like: HostFile) -> None:
    """Make a file that is private until it has the mode of the other one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as opened:
        opened.write(content)
        opened.flush()
        if sys.platform != "win32":
            if like.group >= 0:
                with suppress(OSError):  # a group that this user is not in
                    os.fchown(opened.fileno(), -1, like.group)
            os.fchmod(opened.fileno(), like.mode)
        os.fsync(opened.fileno())


def _check_unchanged(file: HostFile) -> None:
    now = read_plain(file.path, "json")
    if now != file.content:
        raise NotEditable("it has changed meanwhile, so nothing was written; run the command again")
