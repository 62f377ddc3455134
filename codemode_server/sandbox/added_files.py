"""Removes files that a program added to a workspace beyond its quota, the newest first.

Files are identified by inode, so that renamed files are recognized, and ordered by ctime, which programs can't set. A
file that existed before and has grown is truncated to its earlier size; overwritten content can't be restored.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.text import one_line
from codemode_server.untrusted_files import (
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
_PASSES = 3
"""Number of searches: one may not suffice for files with several names, or if others write meanwhile."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A snapshot of a folder."""

    used: int = 0
    """Bytes that count towards the quota."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of each file, by inode; of folders as well."""
    names: Counter[int] = field(default_factory=Counter)
    """Number of names of each file with several, by inode."""


@dataclass(slots=True)
class Removed:
    """Files removed for the quota."""

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
        parts = [f"{self.count:,} {'file' if self.count == 1 else 'files'} removed"] if self.count else []
        if self.cut:
            parts.append(f"{self.cut:,} cut back to {'its' if self.cut == 1 else 'their'} earlier size")
        names = [f"'{one_line(entry.path, _MAX_NAME_CHARACTERS)}'" for _, entry in reversed(self._largest)]
        if self.count + self.cut > len(names):
            names.append("…")
        return f"{', '.join(parts)}, {-(-self.size // 2**20):,} MiB in all: {', '.join(names)}"


def contents(folder: Path, most_entries: int) -> Contents:
    """Contents of a folder now.

    Raises:
        TooManyFiles: it has more entries than that, or can't be read.
    """
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
        for number in range(_PASSES):
            if not _remove_files(folder, before, allowed, removed, is_exact=number == 0):
                return
        _remove_folders(folder, before, allowed, removed)


def _remove_files(folder: Path, before: Contents, allowed: int, removed: Removed, *, is_exact: bool) -> bool:
    """Remove or cut back files; gives whether something may still be to be done.

    If it is exact, it ends when enough is removed. The removal of one name changes the ctime of the others, so without
    that all names of a file go, which frees its content.
    """
    added = _Added(before)
    gains: Counter[int] = Counter()
    excess = -allowed
    for entry in walk(folder):
        excess += added.counted(entry)
        if gain := added.gain(entry):
            gains[entry.status.st_ctime_ns] += gain
    if excess <= 0:
        return False
    since, rest = _newest(gains, excess)
    added, freed = _Added(before), 0
    for entry in walk(folder):
        if is_exact and freed >= excess:
            break
        added.counted(entry)
        gain = added.gain(entry)
        changed_at = entry.status.st_ctime_ns
        if not gain or changed_at < since or (changed_at == since and rest <= 0):
            continue
        rest -= gain if changed_at == since else 0
        freed += gain
        if entry.status.st_ino not in before.sizes or added.is_further_name:
            if remove_entry(entry):
                removed.add(entry, gain)
        elif _cut(entry, before.sizes[entry.status.st_ino]):
            removed.add(entry, gain, is_cut=True)
    return True


def _remove_folders(folder: Path, before: Contents, allowed: int, removed: Removed) -> None:
    """Remove empty folders: a program can fill a workspace with nothing else."""
    excess = used_bytes(folder) - allowed
    for entry in walk(folder) if excess > 0 else ():
        if entry.is_emptied and entry.status.st_ino not in before.sizes and remove_entry(entry):
            removed.add(entry, MIN_ENTRY_BYTES)
            excess -= MIN_ENTRY_BYTES
            if excess <= 0:
                break


class _Added:
    """Determines what was added, during a walk. Call `counted` once for each entry, then `gain`."""

    def __init__(self, before: Contents) -> None:
        self._before = before
        self._names: Counter[int] = Counter()
        self._counted = 0
        self.is_further_name = False
        """True if the entry counted last is one more name of its file."""

    def counted(self, entry: Entry) -> int:
        """Bytes that the entry adds to the folder's sum."""
        self._counted = counted_bytes(entry, self._names)
        inode = entry.status.st_ino
        self.is_further_name = self._names[inode] > max(1, self._before.names[inode])
        return self._counted

    def gain(self, entry: Entry) -> int:
        """Bytes that are freed if the entry, counted last, is removed or cut back; 0 for what stays."""
        if entry.is_folder:
            return 0
        size = self._before.sizes.get(entry.status.st_ino)
        if size is None or self.is_further_name:
            return self._counted
        return max(0, self._counted - max(MIN_ENTRY_BYTES, size))


def _newest(gains: Counter[int], excess: int) -> tuple[int, int]:
    """The time since which all changes together free `excess`, and how much is left to those of that very time."""
    since = 0
    for changed_at in sorted(gains, reverse=True):
        since = changed_at
        if gains[changed_at] >= excess:
            break
        excess -= gains[changed_at]
    return since, excess


def _cut(entry: Entry, size: int) -> bool:
    """Truncates a file; returns whether that succeeded."""
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
