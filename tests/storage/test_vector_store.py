"""Vectors on disk: what was put is there next time, bounded, and a disk that fails costs nothing but time."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.storage import vector_store
from codemode_server.storage.vector_store import SqliteVectorCache


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_what_was_put_is_there_in_the_next_run_for_the_same_model_only(tmp_path: Path) -> None:
    SqliteVectorCache(tmp_path).put("a", {key(1): b"one", key(2): b"two"})
    later = SqliteVectorCache(tmp_path)
    assert later.get("a", [key(1), key(2), key(3)]) == {key(1): b"one", key(2): b"two"}
    assert later.get("b", [key(1)]) == {}


def test_past_the_bound_what_was_not_used_for_the_longest_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_store, "MAX_VECTORS", 10)
    store = SqliteVectorCache(tmp_path)
    for number in range(11):
        store.put("a", {key(number): bytes(100)})
    assert list(store.get("a", [key(number) for number in range(11)])) == [key(number) for number in range(1, 11)]


def test_a_folder_that_can_not_be_written_is_told_once_and_lived_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = SqliteVectorCache(tmp_path / "file")
    store.put("a", {key(1): b"one"})
    assert store.get("a", [key(1)]) == {}
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("vectors of tools are not stored between runs: ")
