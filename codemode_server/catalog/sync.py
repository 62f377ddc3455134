"""Writes the catalog as files into a folder, for people, editors and type checkers; the only I/O of this stage.

A manifest in the folder has the digest of each written file. Only unchanged files of the manifest are replaced or
removed; files that someone wrote or edited stay. Symbolic links below the folder are not followed.
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
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.catalog.stubs import server_package_source
from codemode_server.text import escaped

MANIFEST = ".codemode-sync.json"
_MEMBER = re.compile(r"(?:(?!\.\.?/)[^/\\\0]+/)?[^/\\\0]+\.py")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of one sync."""

    written: int
    unchanged: int
    removed: int
    skipped: tuple[str, ...]
    """Files that we did not write or that were edited since; relative to the folder."""

    @property
    def text(self) -> str:
        counts = f"{self.written} files written, {self.unchanged} unchanged, {self.removed} removed"
        skipped = f"; skipped, since they are not ours: {', '.join(self.skipped)}" if self.skipped else ""
        return escaped(counts + skipped)


def sync(catalog: Catalog, folder: Path) -> SyncReport:
    """Updates the folder to the catalog's tree; each file is replaced atomically.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder.resolve()
    before = _manifest(root)
    tree = tree_of(catalog)
    ours = {path: digest for path, digest in before.items() if path in tree}
    written = unchanged = removed = 0
    skipped: list[str] = []
    for path, source in tree.items():
        content = source.encode()
        present = _content(root, path)
        if present == content:
            unchanged += 1
        elif _is_theirs(root, path, present, before):
            skipped.append(path)
            ours.pop(path, None)
            continue
        else:
            _write(root / path, content)
            written += 1
        ours[path] = _digest(content)
    for path in before.keys() - tree.keys():
        present = _content(root, path)
        if present is not None and _digest(present) == before[path]:
            (root / path).unlink()
            removed += 1
            folder = (root / path).parent
            if folder != root and not any(folder.iterdir()):
                folder.rmdir()
        elif present is not None:
            skipped.append(path)
    _write(root / MANIFEST, json.dumps(dict(sorted(ours.items())), indent=0).encode())
    return SyncReport(written, unchanged, removed, tuple(sorted(skipped)))


def tree_of(catalog: Catalog) -> dict[str, str]:
    """All files of the tree: path below `servers/` → source."""
    files = {"__init__.py": SERVERS_PACKAGE}
    for server in catalog.servers:
        names = [tool.name for tool in server.tools]
        files[f"{server.name}/__init__.py"] = server_package_source(server.raw_name, server.summary, names)
        files |= {f"{server.name}/{tool.name}.py": tool.stub.source for tool in server.tools}
    return files


def _manifest(root: Path) -> dict[str, str]:
    """The digests of an earlier sync; empty if the manifest is missing or damaged."""
    content = _content(root, MANIFEST)
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in items if _MEMBER.fullmatch(path) and isinstance(digest, str)}


def _content(root: Path, path: str) -> bytes | None:
    """The content of a file below the folder; None if it is missing or behind a symbolic link."""
    file = root / path
    return file.read_bytes() if file.is_file() and not _is_linked(root, file) else None


def _is_theirs(root: Path, path: str, present: bytes | None, before: dict[str, str]) -> bool:
    file = root / path
    if present is not None:
        return before.get(path) != _digest(present)
    return _is_linked(root, file) or file.exists() or (file.parent.exists() and not file.parent.is_dir())


def _is_linked(root: Path, file: Path) -> bool:
    return file.is_symlink() or (file.parent != root and file.parent.is_symlink())


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".codemode-")
    try:
        with os.fdopen(handle, "wb") as output:
            output.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
