"""The command `sync`, which writes the tree of stubs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection
from pathlib import Path

import anyio

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.catalog.stubs import server_package_source
from codemode_server.cli.arguments import add_wait
from codemode_server.cli.product import inspected
from codemode_server.cli.status import is_well
from codemode_server.cli.terminal import configuration, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.support.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=Path("servers"), help="default: ./servers")
    add_wait(parser)


def run(parsed: argparse.Namespace) -> int:
    text, is_complete = anyio.run(_write, configuration(parsed), parsed.folder.absolute(), parsed.wait)
    show(text)
    return 0 if is_complete else 1


async def _write(loaded: LoadedSettings, folder: Path, wait_seconds: float) -> tuple[str, bool]:
    if loaded.path is None:
        raise CodemodeError(f"there is no configuration, so nothing to write. {' '.join(loaded.all_messages)}")
    async with inspected(loaded, wait_seconds) as app:
        catalog = app.catalog()
    try:
        lines = [f"{folder}: {sync(catalog, folder)}"]
    except OSError as error:
        raise CodemodeError(f"{folder} can't be written: {error}; give another folder") from error
    if missing := [server.raw_name for server in catalog.servers if not is_well(server)]:
        names = ", ".join(missing)
        lines.append(f"not connected, so as of last time or missing: {names}; `codemode-server status` tells why")
    return "\n".join(lines), not missing


MANIFEST = ".codemode-sync.json"


def sync(catalog: Catalog, folder: Path) -> str:
    """Updates the folder to the catalog's tree; returns what was done, in words. Only files that the manifest names are
    replaced or removed, and none outside of the folder, whatever links or the manifest say. Raises `OSError`."""
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
    counts = f"{len(changed)} files written, {len(ours) - len(changed)} unchanged, {len(gone)} removed"
    others = ", ".join(sorted(tree.keys() - ours.keys()))
    return escaped(f"{counts}; skipped, since they are not ours: {others}" if others else counts)


def tree_of(catalog: Catalog) -> dict[str, str]:
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
