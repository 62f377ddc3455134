"""Removes files that a program added to a workspace beyond its quota, the newest first.

Files are identified by inode, so that renamed files are recognized, and ordered by ctime, which programs can't set. A
file that existed before and has grown is truncated to its earlier size; overwritten content can't be restored.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.support.text import one_line
from codemode_server.support.untrusted_files import (
    MIN_ENTRY_BYTES,
    Entry,
    TooManyFiles,
    content_size,
    counted_bytes,
    remove_entry,
    used_bytes,
    walk,
)

_MAX_NAMES = 3
_MAX_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Contents:
    used: int = 0
    """Bytes that count towards the quota."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of each file, by inode; of folders as well."""
    names: Counter[int] = field(default_factory=Counter)
    """Number of names of each file with several, by inode."""


@dataclass(slots=True)
class Removed:
    count: int = 0
    """Number of files, with those that were cut back to their earlier size."""
    size: int = 0
    _names: list[str] = field(default_factory=list)

    def add(self, entry: Entry, size: int) -> None:
        self.count += 1
        self.size += size
        if self.count <= _MAX_NAMES:
            self._names.append(f"'{one_line(entry.path, _MAX_NAME_CHARACTERS)}'")

    @property
    def text(self) -> str:
        """`3 files removed or cut back, 12 MiB in all: 'big.bin', …`; names are untrusted text."""
        names = [*self._names, *(["…"] if self.count > _MAX_NAMES else [])]
        files = f"{self.count:,} file{'s' * (self.count != 1)} removed or cut back"
        return f"{files}, {-(-self.size // 2**20):,} MiB in all: {', '.join(names)}"


def contents(folder: Path, most_entries: int) -> Contents:
    """What a folder holds. Raises `TooManyFiles` if it has more entries than that, or can't be read."""
    used, sizes, names = 0, dict[int, int](), Counter[int]()
    try:
        for entry in walk(folder, most_entries):
            used += counted_bytes(entry, names)
            sizes[entry.status.st_ino] = content_size(entry.status)
    except OSError as error:
        raise TooManyFiles from error
    return Contents(used, sizes, names)


def remove_added(folder: Path, before: Contents, allowed: int, removed: Removed) -> None:
    """Remove what was added to a folder, the newest first, until it holds no more bytes than that; note it."""
    with suppress(OSError):
        gains: Counter[int] = Counter()
        changed_at: dict[int, int] = {}
        excess = -allowed
        for entry, counted, gain in _added(folder, before):
            excess += counted
            if gain:
                gains[entry.status.st_ino] += gain
                changed_at[entry.status.st_ino] = entry.status.st_ctime_ns
        to_remove: set[int] = set()
        for inode in sorted(gains, key=lambda it: changed_at[it], reverse=True):
            if excess <= 0:
                break
            excess -= gains[inode]
            to_remove.add(inode)
        for entry, counted, gain in _added(folder, before) if to_remove else ():
            if gain and entry.status.st_ino in to_remove:
                is_cut = gain < counted
                if _cut(entry, before.sizes[entry.status.st_ino]) if is_cut else remove_entry(entry):
                    removed.add(entry, gain)
        _remove_folders(folder, before, allowed, removed)


def _remove_folders(folder: Path, before: Contents, allowed: int, removed: Removed) -> None:
    """Remove empty folders: with nothing else, programs could fill the disk, as what is there when a program begins may
    stay."""
    excess = used_bytes(folder) - allowed
    for entry in walk(folder) if excess > 0 else ():
        if entry.is_emptied and entry.status.st_ino not in before.sizes and remove_entry(entry):
            removed.add(entry, MIN_ENTRY_BYTES)
            excess -= MIN_ENTRY_BYTES
            if excess <= 0:
                break


def _added(folder: Path, before: Contents) -> Iterator[tuple[Entry, int, int]]:
    """Each entry with the bytes that it adds to the folder's sum, and those of them that go if it is removed (or cut
    back, if it was there before); none for what stays."""
    names: Counter[int] = Counter()
    for entry in walk(folder):
        counted, inode = counted_bytes(entry, names), entry.status.st_ino
        size = before.sizes.get(inode)
        gain = 0 if entry.is_folder else counted
        if size is not None and names[inode] <= max(1, before.names[inode]):  # no further name of its file
            gain = min(gain, max(0, counted - max(MIN_ENTRY_BYTES, size)))
        yield entry, counted, gain


def _cut(entry: Entry, size: int) -> bool:
    with suppress(OSError):
        flags = os.O_WRONLY
        if sys.platform != "win32":
            flags |= os.O_NONBLOCK | os.O_NOFOLLOW
        name, folder = entry.place
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            now = os.fstat(descriptor)
            if stat.S_ISREG(now.st_mode) and os.path.samestat(now, entry.status):
                os.ftruncate(descriptor, min(size, now.st_size))
                return True
        finally:
            os.close(descriptor)
    return False
