"""The catalog as files in a folder, for people, editors and type checkers; the only I/O of this stage.

A manifest in the folder says what was written and with which content. Only that is ever replaced or removed, and only
while it is unchanged: a file that someone wrote or edited stays. Symbolic links below the folder are not followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.servers_package import servers_package_source
from codemode_server.catalog.stubs import server_package_source
from codemode_server.text import escaped

MANIFEST = ".codemode-sync.json"
_MEMBER = re.compile(r"(?:(?!\.\.?/)[^/\\\0]+/)?[^/\\\0]+\.py")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one sync did."""

    written: int
    unchanged: int
    removed: int
    kept: tuple[str, ...]
    """Files in the way that are not ours, or were edited since; relative to the folder."""

    @property
    def text(self) -> str:
        told = f"{self.written} files written, {self.unchanged} unchanged, {self.removed} removed"
        return escaped(told + (f"; left alone, since they are not ours: {', '.join(self.kept)}" if self.kept else ""))


def sync(catalog: Catalog, folder: Path) -> SyncReport:
    """Make the folder hold the catalog's tree, one file at a time, each whole or not at all.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder.resolve()
    before = _manifest(root)
    wanted = tree_of(catalog)
    ours = {path: digest for path, digest in before.items() if path in wanted}
    written = unchanged = removed = 0
    kept: list[str] = []
    for path, source in wanted.items():
        content = source.encode()
        present = _content(root, path)
        if present == content:
            unchanged += 1
        elif _is_theirs(root, path, present, before):
            kept.append(path)
            ours.pop(path, None)
            continue
        else:
            _write(root / path, content)
            written += 1
        ours[path] = _digest(content)
    for path in before.keys() - wanted.keys():
        present = _content(root, path)
        if present is not None and _digest(present) == before[path]:
            (root / path).unlink()
            removed += 1
            _remove_if_empty((root / path).parent, root)
        elif present is not None:
            kept.append(path)
    _write(root / MANIFEST, json.dumps(dict(sorted(ours.items())), indent=0).encode())
    return SyncReport(written, unchanged, removed, tuple(sorted(kept)))


def tree_of(catalog: Catalog) -> dict[str, str]:
    """Every file of the tree: path below `servers/` → source."""
    files = {"__init__.py": servers_package_source()}
    for server in catalog.servers:
        names = [tool.name for tool in server.tools]
        files[f"{server.name}/__init__.py"] = server_package_source(server.raw_name, server.summary, names)
        files |= {f"{server.name}/{tool.name}.py": tool.stub.source for tool in server.tools}
    return files


def _manifest(root: Path) -> dict[str, str]:
    """What an earlier sync wrote; nothing if that can't be told."""
    content = _content(root, MANIFEST)
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in items if _MEMBER.fullmatch(path) and isinstance(digest, str)}


def _content(root: Path, path: str) -> bytes | None:
    """What is in a file below the folder; None if there is none, or only behind a symbolic link."""
    place = root / path
    if _is_linked(root, place) or not place.is_file():
        return None
    return place.read_bytes()


def _is_theirs(root: Path, path: str, present: bytes | None, before: dict[str, str]) -> bool:
    place = root / path
    if present is not None:
        return before.get(path) != _digest(present)
    return _is_linked(root, place) or place.exists() or (place.parent.exists() and not place.parent.is_dir())


def _is_linked(root: Path, place: Path) -> bool:
    return any(part.is_symlink() for part in (place, *place.parents) if part.is_relative_to(root) and part != root)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".codemode-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _remove_if_empty(folder: Path, root: Path) -> None:
    if folder != root and not any(folder.iterdir()):
        folder.rmdir()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
