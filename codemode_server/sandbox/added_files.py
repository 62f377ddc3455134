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
    size: int = 0
    cut: int = 0
    """Number of files truncated to their earlier size."""
    _largest: list[tuple[int, Entry]] = field(default_factory=list)

    def add(self, entry: Entry, size: int, *, is_cut: bool = False) -> None:
        self.size += size
        self.cut += is_cut
        self.count += not is_cut
        self._largest = sorted([*self._largest, (size, entry)], key=lambda it: it[0])[-_MAX_NAMES:]

    def __bool__(self) -> bool:
        return self.count + self.cut > 0

    @property
    def text(self) -> str:
        """`3 files removed, 1 cut back to its earlier size, 12 MiB in all: 'big.bin', …`; names are untrusted text."""
        parts = [f"{self.count:,} file{'s' * (self.count != 1)} removed"] if self.count else []
        parts += [f"{self.cut:,} cut back to the earlier size"] if self.cut else []
        names = [f"'{one_line(entry.path, _MAX_NAME_CHARACTERS)}'" for _, entry in reversed(self._largest)]
        if self.count + self.cut > len(names):
            names.append("…")
        return f"{', '.join(parts)}, {-(-self.size // 2**20):,} MiB in all: {', '.join(names)}"


def contents(folder: Path, most_entries: int) -> Contents:
    """What a folder holds. Raises `TooManyFiles` if it has more entries than that, or can't be read."""
    used = 0
    sizes: dict[int, int] = {}
    names: Counter[int] = Counter()
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
        if to_remove:
            _remove_files(folder, before, to_remove, removed)
        _remove_folders(folder, before, allowed, removed)


def _remove_files(folder: Path, before: Contents, inodes: set[int], removed: Removed) -> None:
    for entry, counted, gain in _added(folder, before):
        if entry.status.st_ino in inodes and gain:
            is_cut = gain < counted
            if _cut(entry, before.sizes[entry.status.st_ino]) if is_cut else remove_entry(entry):
                removed.add(entry, gain, is_cut=is_cut)


def _remove_folders(folder: Path, before: Contents, allowed: int, removed: Removed) -> None:
    """Remove empty folders: a program can fill a workspace with nothing else."""
    excess = used_bytes(folder) - allowed
    if excess <= 0:
        return
    for entry in walk(folder):
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
