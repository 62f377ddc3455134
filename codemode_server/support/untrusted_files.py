"""Walks, measures and empties folders to which programs write, also while they are changed.

A program can nest folders deeper than any path or Python's recursion reaches, leave links that point anywhere, and
replace a folder by a link while the host is in it. So nothing is opened by its path: each folder is opened from its
parent without following links, and the way back up is checked. On Windows the walk goes by paths: programs have no
/workspace there.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

MIN_ENTRY_BYTES = 4_096
"""Bytes that an empty file or folder counts for, since it takes disk space too."""
EVERYTHING = 2**63
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_ALLOCATED_AHEAD = 64 * 2**10
"""Bytes that a file system may allocate in advance for a small file that is being written."""


class TooManyFiles(Exception):
    """Raised when a folder has more entries than may be walked."""


def read_regular(path: Path, max_bytes: int) -> bytes:
    """The content, and at most one byte more than the file may have. A pipe is not waited for. Raises `OSError`."""
    careful = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda it, flags: os.open(it, flags | careful)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file")
        return file.read(max_bytes + 1)


@dataclass(slots=True)
class Entry:
    """A file, folder or link below the folder that is walked."""

    parent: int | str
    """Its folder: a descriptor that is open until the walk continues, or on Windows its path."""
    name: str
    status: os.stat_result
    depth: int
    above: Entry | None
    """Its folder; None for the walked folder itself."""
    is_folder: bool
    is_emptied: bool = False
    """True if this is the second visit of a folder, after all its entries."""

    @property
    def path(self) -> str:
        """Its path below the walked folder; untrusted text of any length, only for display."""
        names = [self.name]
        folder = self.above
        while folder is not None:
            names.append(folder.name)
            folder = folder.above
        return "/".join(reversed(names))

    @property
    def place(self) -> tuple[str, int | None]:
        """Arguments of system calls for it: its name and the descriptor of its folder, or its path and None."""
        if isinstance(self.parent, str):
            return os.path.join(self.parent, self.name), None  # noqa: PTH118 - `Path` costs more than the call
        return self.name, self.parent

    @property
    def size(self) -> int:
        """Bytes that count towards the quota."""
        return max(MIN_ENTRY_BYTES, content_size(self.status))


@dataclass(slots=True)
class _Level:
    """A folder on the current path of the walk."""

    entry: Entry | None
    """None for the walked folder itself."""
    inode: tuple[int, int]
    folders: list[Entry] | None = None
    """Those that are not walked yet; None before its entries are read."""


def walk(folder: Path, most_entries: int = EVERYTHING) -> Iterator[Entry]:
    """Everything below a folder; a folder comes before its entries, and once more after them. Links are not followed.
    Entries that disappear meanwhile or cannot be read are left out. The caller may remove entries. Raises
    `TooManyFiles`; `OSError`: this process can't open more files."""
    if sys.platform == "win32":
        return _at_most(most_entries, _walk_by_path(folder))
    return _walk_by_descriptor(folder, most_entries)


def _at_most(most_entries: int, entries: Iterator[Entry]) -> Iterator[Entry]:
    count = 0
    for entry in entries:
        count += not entry.is_emptied
        if count > most_entries:
            raise TooManyFiles
        yield entry


def _walk_by_descriptor(folder: Path, most_entries: int) -> Iterator[Entry]:
    try:
        here = os.open(folder, FOLDER_FLAGS)
    except OSError as error:
        _check_gone(error)
        return
    count, levels = 0, [_Level(None, _inode(here))]
    try:
        while levels:
            level, depth = levels[-1], len(levels) - 1
            if level.folders is None:
                level.folders = []
                try:
                    with os.scandir(here) as found:
                        for item in found:
                            try:
                                status = item.stat(follow_symlinks=False)
                            except OSError:
                                continue
                            if (count := count + 1) > most_entries:
                                raise TooManyFiles
                            entry = Entry(here, item.name, status, depth, level.entry, stat.S_ISDIR(status.st_mode))
                            if entry.is_folder:
                                level.folders.append(entry)
                            yield entry
                except OSError as error:
                    _check_gone(error)
            elif level.folders:
                below = level.folders.pop()
                try:
                    here = _moved(here, below.name)
                    levels.append(_Level(below, _inode(here)))
                except OSError as error:
                    _check_gone(error)
            else:
                levels.pop()
                if level.entry is not None:
                    here = _back(here, folder, levels)
                    if levels:
                        yield replace(level.entry, parent=here, is_emptied=True)
    except OSError as error:
        _check_gone(error)
    finally:
        os.close(here)


def used_bytes(folder: Path, most_entries: int = EVERYTHING, *, enough: int = EVERYTHING) -> int:
    """Bytes of everything below a folder. Counting stops above `enough`; if it fails, the result is above it too.
    Raises `TooManyFiles`."""
    used = 0
    names: Counter[int] = Counter()
    try:
        for entry in walk(folder, most_entries):
            used += counted_bytes(entry, names)
            if used > enough:
                break
    except OSError:
        return enough + 1
    return used


def counted_bytes(entry: Entry, names: Counter[int]) -> int:
    """Bytes that an entry adds to the sum of a walk. A file with several names counts once; `names` counts the names
    seen so far, by inode."""
    status = entry.status
    if entry.is_emptied:
        return 0
    if status.st_nlink > 1 and not entry.is_folder:
        names[status.st_ino] += 1
        if names[status.st_ino] > 1:
            return MIN_ENTRY_BYTES
    return max(MIN_ENTRY_BYTES, content_size(status))


def content_size(status: os.stat_result) -> int:
    """Size of a file in bytes, or its space on disk if much more is allocated than it contains."""
    on_disk: int = getattr(status, "st_blocks", 0) * 512
    return on_disk if on_disk > 2 * max(status.st_size, _ALLOCATED_AHEAD) else status.st_size


def empty(folder: Path, *, besides: str = "", is_ending: Callable[[], bool] = lambda: False) -> None:
    """Remove everything below a folder except the entry named `besides`. Entries that cannot be removed are left, and
    all others once `is_ending`."""
    with suppress(OSError):
        for entry in walk(folder):
            if is_ending():
                return
            if entry.depth > 0 or entry.name != besides:
                remove_entry(entry)


def remove(folder: Path) -> None:
    """Remove a folder and everything below it; entries that cannot be removed are left."""
    empty(folder)
    with suppress(OSError):
        folder.rmdir()


def remove_entry(entry: Entry) -> bool:
    """Remove an entry of a walk; a folder only at its second visit, and if it is empty. Returns whether it is gone."""
    if entry.is_folder and not entry.is_emptied:
        return False
    try:
        name, folder = entry.place
        if entry.is_folder:
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _check_gone(error: OSError) -> None:
    """Skip a folder that can no longer be opened or read; raise the error if no more files can be opened at all."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _moved(here: int, name: str) -> int:
    """Open a folder in `here`, and close `here`."""
    _give_access(here, name)
    there = os.open(name, FOLDER_FLAGS, dir_fd=here)
    os.close(here)
    return there


def _give_access(here: int, name: str) -> None:
    """Make a folder readable and writable whose permissions a program removed, so that its content counts and can be
    removed. Never through a link: `O_PATH` opens the folder first, which needs no permission on it."""
    if sys.platform != "linux" or os.geteuid() == 0:
        return
    with suppress(OSError):
        found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        try:
            status = os.fstat(found)
            if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(status.st_mode) | 0o700)  # noqa: PTH101
        finally:
            os.close(found)


def _back(here: int, folder: Path, levels: list[_Level]) -> int:
    """Open the parent of `here`, and close `here`. If `here` was moved meanwhile, the parent is opened from the top,
    and levels that no longer exist are dropped."""
    with suppress(OSError):
        above = os.open("..", FOLDER_FLAGS, dir_fd=here)
        if _inode(above) == levels[-1].inode:
            os.close(here)
            return above
        os.close(above)
    try:
        found = os.open(folder, FOLDER_FLAGS)
    except OSError:
        levels.clear()
        return here
    os.close(here)
    for number, level in enumerate(levels):
        if level.entry is None:
            continue
        try:
            below = os.open(level.entry.name, FOLDER_FLAGS, dir_fd=found)
        except OSError:
            del levels[number:]
            break
        if _inode(below) != level.inode:
            os.close(below)
            del levels[number:]
            break
        os.close(found)
        found = below
    return found


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _is_folder(status: os.stat_result) -> bool:
    """True if it is a folder, and no junction of Windows, which leads elsewhere like a link."""
    leads_elsewhere = getattr(status, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
    return stat.S_ISDIR(status.st_mode) and not leads_elsewhere


def _walk_by_path(folder: Path | str, depth: int = 0, above: Entry | None = None) -> Iterator[Entry]:
    try:
        names = os.listdir(folder) if _is_folder(os.lstat(folder)) else []  # noqa: PTH208 - looked at without links
    except OSError as error:
        _check_gone(error)
        return
    for name in names:
        try:
            # Not by `scandir`, which tells no inode and no number of names on Windows.
            status = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - `Path` costs more than the call
        except OSError:
            continue
        entry = Entry(str(folder), name, status, depth, above, _is_folder(status))
        yield entry
        if entry.is_folder:
            yield from _walk_by_path(entry.place[0], depth + 1, entry)
            yield replace(entry, is_emptied=True)
