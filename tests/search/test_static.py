"""The static table that the package ships: what its vectors say of texts, and what becomes of a damaged file.

The real table, and small ones made here where the way from text to tokens is the matter."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.static import MAGIC, TABLE, StaticEncoder


def loaded(path: Path = TABLE) -> StaticEncoder:
    encoder = StaticEncoder(path)
    encoder.load()
    return encoder


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return loaded()


def small_table(folder: Path) -> Path:
    path = folder / "table.bin"
    words = b"mail\nsend\n##er\n"
    body = words + np.full(3, 1 / 127, "<f4").tobytes() + (127 * np.eye(3, 4, dtype=np.int8)).tobytes()
    header: dict[str, int | str] = {"tokens": 3, "dimensions": 4, "others_from": 3, "vocabulary_bytes": len(words)}
    header |= {"sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(MAGIC + json.dumps(header, separators=(",", ":")).encode() + b"\n" + body)
    return path


@pytest.mark.parametrize("text", ["", "   \n\t", "!?… —", "\x00\x01", "🙂🙂", "_", "0123456789", "\ud800", "ملف"])
def test_a_text_without_known_words_is_a_row_of_zeros_and_its_neighbours_are_not(
    encoder: StaticEncoder, text: str
) -> None:
    before, vector, after = encoder.documents(["read a file", text, "read a file"])

    assert not vector.any()
    assert np.array_equal(before, after)
    assert before.any()


def test_names_are_read_as_their_words(encoder: StaticEncoder) -> None:
    said, snake, camel, accented = encoder.queries(
        ["list open files", "list_open_files", "listOpenFiles", "líst ópen filés"]
    )

    assert np.allclose(said, snake)
    assert np.allclose(said, camel)
    assert np.allclose(said, accented)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content.replace(b'"dimensions":4', b'"dimensions":3'),
        lambda content: content.replace(b'"tokens":3', b'"tokens":999999'),
        lambda content: content.replace(b"table 1", b"table 2"),
        lambda content: b"version https://git-lfs.github.com/spec/v1\n",
    ],
    ids=["empty", "cut", "one bit", "dimensions", "tokens", "version", "pointer"],
)
def test_a_damaged_table_is_an_error_that_names_the_file(tmp_path: Path, damage: object) -> None:
    path = small_table(tmp_path)
    loaded(path)  # it was good before
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(EncoderFailed, match=r"table\.bin"):
        loaded(path)


def test_a_table_that_is_not_there_is_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderFailed, match="No such file"):
        loaded(tmp_path / "none.bin")
