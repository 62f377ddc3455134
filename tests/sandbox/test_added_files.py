"""What a program added to a workspace beyond the quota is removed, the newest first; what was there before stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codemode_server.sandbox.added_files import Contents, Removed, contents, remove_added
from codemode_server.support.untrusted_files import MIN_ENTRY_BYTES, TooManyFiles, used_bytes
from tests.test_untrusted_files import nest

MB = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def trim(folder: Path, before: Contents, allowed: int) -> Removed:
    removed = Removed()
    remove_added(folder, before, allowed, removed)
    return removed


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_files_deeper_than_any_path_are_removed(folder: Path) -> None:
    before = contents(folder, 100)
    here = nest(folder, 400)
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.ftruncate(file, 10 * MB)
    os.close(file)
    os.close(here)
    assert trim(folder, before, 2 * MB).count == 1
    assert used_bytes(folder) == 400 * MIN_ENTRY_BYTES
    trim(folder, before, MB)
    assert used_bytes(folder) <= MB


def test_further_names_of_a_file_are_removed_and_the_file_stays(folder: Path) -> None:
    (folder / "old").write_bytes(bytes(MB))
    (folder / "second name").hardlink_to(folder / "old")
    before = contents(folder, 100)
    (folder / "sub").mkdir()
    for number in range(50):
        (folder / "sub" / str(number)).hardlink_to(folder / "old")
    trim(folder, before, before.used + 10 * MIN_ENTRY_BYTES)
    names = [path for path in folder.rglob("*") if path.is_file()]
    assert len(names) == 2
    assert all(path.stat().st_size == MB for path in names)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room can't be set aside here")
def test_room_that_is_set_aside_without_making_a_file_longer_counts(folder: Path) -> None:
    import ctypes

    before = contents(folder, 100)
    with (folder / "set aside").open("wb") as file:
        keep_size = 1
        size = ctypes.c_long(8 * MB)
        if ctypes.CDLL(None, use_errno=True).fallocate(file.fileno(), keep_size, ctypes.c_long(0), size) != 0:
            pytest.skip("this file system can't do it")
    assert (folder / "set aside").stat().st_size == 0
    assert used_bytes(folder) >= 8 * MB
    trim(folder, before, MB)
    assert sizes(folder) == {}


def test_a_folder_with_too_many_files_is_not_noted(folder: Path) -> None:
    for number in range(10):
        (folder / str(number)).touch()
    assert len(contents(folder, 10).sizes) == 10
    with pytest.raises(TooManyFiles):
        contents(folder, 9)
