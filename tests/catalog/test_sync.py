"""The tree as files: written whole, replaced and removed only where they are ours, never through a link."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.cli.sync import MANIFEST, sync, tree_of
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState


def catalog(**servers: list[str]) -> Catalog:
    return Catalog.build(
        UpstreamListing(name, UpstreamState.READY, tuple(ToolDefinition(tool) for tool in tools))
        for name, tools in servers.items()
    )


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file() and file.name != MANIFEST
    }


def test_the_folder_holds_the_tree_and_a_second_sync_writes_nothing(tmp_path: Path) -> None:
    both = catalog(github=["create_issue", "get-me"], slack=["post"])
    assert sync(both, tmp_path / "servers") == "6 files written, 0 unchanged, 0 removed"
    assert files_in(tmp_path / "servers") == tree_of(both)
    assert sorted(tree_of(both)) == [
        "__init__.py",
        "github/__init__.py",
        "github/create_issue.py",
        "github/get_me.py",
        "slack/__init__.py",
        "slack/post.py",
    ]
    stamps = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.py")}
    assert sync(both, tmp_path / "servers") == "0 files written, 6 unchanged, 0 removed"
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.py")} == stamps


def test_a_tool_or_server_that_is_gone_goes_with_its_empty_folder(tmp_path: Path) -> None:
    sync(catalog(github=["a", "b"], slack=["post"]), tmp_path)
    report = sync(catalog(github=["a"]), tmp_path)
    assert report.endswith(", 3 removed")
    assert not (tmp_path / "slack").exists()
    assert files_in(tmp_path) == tree_of(catalog(github=["a"]))


def test_files_that_someone_wrote_stay(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "github").mkdir()
    (tmp_path / "github" / "a.py").write_text("mine")
    assert sync(catalog(github=["a", "b"]), tmp_path).endswith("; skipped, since they are not ours: github/a.py")
    assert sync(catalog(github=["a"]), tmp_path) == (
        "1 files written, 1 unchanged, 1 removed; skipped, since they are not ours: github/a.py"
    )
    assert {name: text for name, text in files_in(tmp_path).items() if text == "mine"}.keys() == {
        "README.md",
        "github/a.py",
    }


def test_links_are_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("precious")
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "github").symlink_to(outside)
    (folder / "slack").mkdir()
    (folder / "slack" / "post.py").symlink_to(outside / "a.py")
    report = sync(catalog(github=["a"], slack=["post"]), folder)
    assert report.endswith(": github/__init__.py, github/a.py, slack/post.py")
    assert files_in(outside) == {"a.py": "precious"}


@pytest.mark.parametrize("path", ["../precious.py", "/precious.py", "a/../../precious.py", "..\\precious.py"])
def test_a_manifest_that_names_files_elsewhere_removes_nothing(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "servers"
    sync(catalog(github=["a"]), folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    (tmp_path / "precious.py").write_text(SERVERS_PACKAGE)
    (folder / MANIFEST).write_text(json.dumps([*manifest, path, str(tmp_path / "precious.py")]))
    assert sync(catalog(), folder).endswith(", 2 removed")
    assert (tmp_path / "precious.py").exists()


@pytest.mark.parametrize("content", ["", "{", "3", "[3]"])
def test_a_manifest_that_can_not_be_read_makes_every_file_someone_elses(tmp_path: Path, content: str) -> None:
    sync(catalog(github=["a"]), tmp_path)
    (tmp_path / MANIFEST).write_text(content)
    report = sync(catalog(slack=["post"]), tmp_path)
    assert (", 0 removed" in report, (tmp_path / "github" / "a.py").exists()) == (True, True)
