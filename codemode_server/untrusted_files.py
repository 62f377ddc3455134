"""Walks, measures and empties folders that programs write, whatever is in them and whoever changes them meanwhile.

A program can nest folders deeper than any path or Python's recursion reaches, leave links that point anywhere, and
replace a folder by a link while the host is in it. So nothing is found by a path: each folder is opened from the one it
is in, links refused, and going back up is checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

MIN_ENTRY_BYTES = 4_096
"""Bytes that even an empty file or folder takes of a disk."""
EVERYTHING = 2**63
"""Bytes or entries; more than any disk has."""
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_ALLOCATED_AHEAD = 64 * 2**10
"""Bytes that a file system may set aside for a small file which is being written."""


class TooManyFiles(Exception):
    """Raised when a folder has more entries than may be walked."""


@dataclass(slots=True)
class Entry:
    """A file, folder or link below the folder that is walked."""

    parent: int
    """Descriptor of the folder it is in, open until the walk goes on."""
    name: str
    status: os.stat_result
    depth: int
    """0 for what is directly in the folder that is walked."""
    above: Entry | None
    """The folder it is in; None for the one that is walked."""
    is_emptied: bool = False
    """Whether this is a folder's second turn, after everything in it."""

    @property
    def path(self) -> str:
        """Its path below the folder that is walked: untrusted text, of any length, and only to be shown."""
        names = [self.name]
        folder = self.above
        while folder is not None:
            names.append(folder.name)
            folder = folder.above
        return "/".join(reversed(names))

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def size(self) -> int:
        """Bytes it takes of the quota."""
        return max(MIN_ENTRY_BYTES, content_size(self.status))


@dataclass(slots=True)
class _Level:
    """A folder that the walk is in."""

    entry: Entry | None
    """None for the one that is walked."""
    inode: tuple[int, int]
    folders: list[Entry] = field(default_factory=list)
    """Those in it that are still to be walked."""


def walk(folder: Path, most_entries: int = EVERYTHING) -> Iterator[Entry]:
    """Everything below a folder; a folder comes before what is in it, and once more after. Links are not followed.

    What disappears meanwhile, or can't be read, is left out. A caller may remove what it gets.

    Raises:
        OSError: this process can't open more files.
        TooManyFiles: it has more entries than that.
    """
    with _unless_gone():
        here = os.open(folder, _FOLDER)
        levels = [_Level(None, _inode(here))]
        count = 0
        for entry in _walk(here, folder, levels):
            count += not entry.is_emptied
            if count > most_entries:
                raise TooManyFiles
            yield entry


def _walk(here: int, folder: Path, levels: list[_Level]) -> Iterator[Entry]:
    try:
        yield from _scan(here, levels)
        while levels:
            level = levels[-1]
            if level.folders:
                below = level.folders.pop()
                with _unless_gone():
                    here = _moved(here, below.name)
                    levels.append(_Level(below, _inode(here)))
                    yield from _scan(here, levels)
                continue
            levels.pop()
            if level.entry is not None:
                here = _back(here, folder, levels)
                if levels:
                    yield replace(level.entry, parent=here, is_emptied=True)
    finally:
        os.close(here)


def used_bytes(folder: Path, enough: int = EVERYTHING, most_entries: int = EVERYTHING) -> int:
    """Bytes in a folder and all below it; stops counting past `enough`. More than that if it can't be measured.

    Raises:
        TooManyFiles: it has more entries than that.
    """
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
    """What an entry of a walk adds to its sum. A file's content counts once, whatever the number of its names;
    `names` counts those of files with several, by inode."""
    if entry.is_emptied:
        return 0
    if entry.status.st_nlink > 1 and not entry.is_folder:
        names[entry.status.st_ino] += 1
        if names[entry.status.st_ino] > 1:
            return MIN_ENTRY_BYTES
    return entry.size


def content_size(status: os.stat_result) -> int:
    """Bytes: a file's size, or what it takes of the disk where it was given much more than it holds."""
    on_disk: int = getattr(status, "st_blocks", 0) * 512
    return on_disk if on_disk > 2 * max(status.st_size, _ALLOCATED_AHEAD) else status.st_size


def empty(folder: Path, *, besides: str = "", is_ending: Callable[[], bool] = lambda: False) -> None:
    """Remove everything below a folder but the entry of that name; what can't be removed is left, and the rest once
    `is_ending`."""
    with suppress(OSError):
        for entry in walk(folder):
            if is_ending():
                return
            if entry.depth > 0 or entry.name != besides:
                remove_entry(entry)


def remove(folder: Path) -> None:
    """Remove a folder and everything below it; what can't be removed is left."""
    empty(folder)
    with suppress(OSError):
        folder.rmdir()


def remove_entry(entry: Entry) -> bool:
    """Remove what a walk came to: a folder at its second turn only, and if it is empty. Gives whether it is gone."""
    if entry.is_folder and not entry.is_emptied:
        return False
    try:
        if entry.is_folder:
            os.rmdir(entry.name, dir_fd=entry.parent)
        else:
            os.unlink(entry.name, dir_fd=entry.parent)
    except OSError:
        return False
    return True


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Pass over a folder that can't be opened or read any more."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise


def _scan(here: int, levels: list[_Level]) -> Iterator[Entry]:
    depth, level = len(levels) - 1, levels[-1]
    with os.scandir(here) as found:
        for item in found:
            try:
                entry = Entry(here, item.name, item.stat(follow_symlinks=False), depth, level.entry)
            except OSError:
                continue
            if entry.is_folder:
                level.folders.append(entry)
            yield entry


def _moved(here: int, name: str) -> int:
    """The descriptor of a folder in `here`, which is closed."""
    _give_access(here, name)
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _give_access(here: int, name: str) -> None:
    """Let the owner read and write a folder of this user's that a program has closed, so that what is in it counts and
    can be removed. Never through a link: the folder is opened first, which needs no permission of its own."""
    if not hasattr(os, "O_PATH") or os.geteuid() == 0:
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
    """The descriptor of the parent of `here`, which is closed.

    If `here` was moved meanwhile, it is looked for from the top; levels that are no longer there are dropped, all if
    the folder itself is gone.
    """
    with suppress(OSError):
        above = os.open("..", _FOLDER, dir_fd=here)
        if _inode(above) == levels[-1].inode:
            os.close(here)
            return above
        os.close(above)
    try:
        found = os.open(folder, _FOLDER)
    except OSError:
        levels.clear()
        return here
    os.close(here)
    for number, level in enumerate(levels):
        if level.entry is None:
            continue
        try:
            below = os.open(level.entry.name, _FOLDER, dir_fd=found)
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
