"""Files of a product that runs: one may be renamed or removed between being listed and being read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def contents(folder: Path) -> dict[Path, bytes]:
    """What each file below a folder has in it."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            with suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


def modes(folder: Path) -> dict[Path, int]:
    """The type and the permissions of a folder and of all below it."""
    found = {folder: folder.stat().st_mode}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place) / name
            with suppress(FileNotFoundError):
                found[path] = path.stat().st_mode
    return found
