"""Writes the catalog as files into a folder, for people, editors and type checkers; the only I/O of this stage.

A manifest in the folder names the written files. Other files are neither replaced nor removed, and nothing is written
or removed outside of the folder, whatever links or the manifest say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.catalog.stubs import server_package_source
from codemode_server.support.text import escaped

MANIFEST = ".codemode-sync.json"


@dataclass(frozen=True, slots=True)
class SyncReport:
    written: int
    unchanged: int
    removed: int
    skipped: tuple[str, ...]
    """Files that we did not write; relative to the folder."""

    @property
    def text(self) -> str:
        counts = f"{self.written} files written, {self.unchanged} unchanged, {self.removed} removed"
        skipped = f"; skipped, since they are not ours: {', '.join(self.skipped)}" if self.skipped else ""
        return escaped(counts + skipped)


def sync(catalog: Catalog, folder: Path) -> SyncReport:
    """Updates the folder to the catalog's tree. Raises `OSError`: the folder can't be written."""
    folder.mkdir(parents=True, exist_ok=True)
    root, tree = folder.resolve(), tree_of(catalog)
    before = _manifest(root)
    ours = {path: source.encode() for path, source in tree.items() if _is_ours(root, path, before)}
    changed = [path for path, content in ours.items() if _content(root / path) != content]
    gone = [path for path in before - tree.keys() if _is_ours(root, path, before) and (root / path).is_file()]
    for path in changed:
        file = root / path
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)  # a link would be followed
        file.write_bytes(ours[path])
    for path in gone:
        file = root / path
        file.unlink()
        if file.parent != root and not any(file.parent.iterdir()):
            file.parent.rmdir()
    (root / MANIFEST).unlink(missing_ok=True)
    (root / MANIFEST).write_text(json.dumps(sorted(ours), indent=0))
    return SyncReport(len(changed), len(ours) - len(changed), len(gone), tuple(sorted(tree.keys() - ours.keys())))


def tree_of(catalog: Catalog) -> dict[str, str]:
    """All files of the tree: path below `servers/` → source."""
    files = {"__init__.py": SERVERS_PACKAGE}
    for server in catalog.servers:
        names = [tool.name for tool in server.tools]
        files[f"{server.name}/__init__.py"] = server_package_source(server.raw_name, server.summary, names)
        files |= {f"{server.name}/{tool.name}.py": tool.stub.source for tool in server.tools}
    return files


def _manifest(root: Path) -> set[str]:
    """The files of an earlier sync; none if the manifest is missing or damaged."""
    try:
        found = json.loads(_content(root / MANIFEST))
    except ValueError:
        return set()
    return {path for path in found if isinstance(path, str)} if isinstance(found, list) else set()


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _is_ours(root: Path, path: str, before: Collection[str]) -> bool:
    """True if we wrote the file, or it does not exist, and no link leads out of the folder."""
    file = root / path
    parent = file.parent.resolve()
    is_inside = root in (parent, parent.parent) and (parent.is_dir() or not parent.exists())
    return is_inside and (path in before or not os.path.lexists(file))
