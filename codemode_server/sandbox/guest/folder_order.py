"""The order of a folder's entries: by name, so that it is the same wherever a program runs again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from .replacements import replace_members

_listdir, _scandir = os.listdir, os.scandir


class _Entries:
    """What `os.scandir` gives."""

    def __init__(self, entries: Iterator[os.DirEntry[Any]]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def install() -> None:
    """Have `os.listdir` and `os.scandir`, which all others use, sort the entries."""

    def listdir(path: Any = None) -> list[Any]:
        return sorted(_listdir(path))

    def scandir(path: Any = None) -> _Entries:
        with _scandir(path) as entries:
            return _Entries(iter(sorted(entries, key=lambda entry: entry.name)))

    replace_members(os, listdir=listdir, scandir=scandir)
    for own, original in ((listdir, _listdir), (scandir, _scandir)):
        if original in os.supports_fd:
            os.supports_fd.add(own)
