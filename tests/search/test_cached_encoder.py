"""What is kept of an encoder's work: each text is read once, in this run and in the next, under the model's name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding.cached_encoder import CachedEncoder
from codemode_server.search.vectors import Vectors
from codemode_server.storage.vector_store import SqliteVectorCache
from tests.search.encoders import Gated, hashed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteVectorCache]:
    with closing(SqliteVectorCache(tmp_path)) as made:
        yield made


def test_a_text_is_read_once_whatever_the_order_and_however_often_it_comes(store: SqliteVectorCache) -> None:
    inner = Gated()
    texts = ["read a file", "write", "read a file", "", "forecast of the weather"]
    first = CachedEncoder(inner, store).documents(texts)
    assert sorted(inner.documents_asked) == sorted(set(texts))
    again = CachedEncoder(inner, store).documents(texts[::-1])
    assert len(inner.documents_asked) == 4, "the next run asks for none"
    assert (first == again[::-1]).all(), "to the last bit, so that a restart changes no ranking"
    assert np.allclose(first, hashed(texts), atol=1e-3)


def test_another_model_reads_them_itself(store: SqliteVectorCache) -> None:
    inner = Gated()
    CachedEncoder(inner, store).documents(["read"])
    inner.name = "another"
    CachedEncoder(inner, store).documents(["read"])
    assert inner.documents_asked == ["read", "read"]


def test_what_was_done_before_a_failure_is_not_done_again(store: SqliteVectorCache) -> None:
    class Failing(Gated):
        def documents(self, texts: Sequence[str]) -> Vectors:
            if len(self.documents_asked) >= 64:
                raise EncoderFailed("killed", retry="limited")
            return super().documents(texts)

    texts = [f"text {number}" for number in range(100)]
    failing = Failing()
    with pytest.raises(EncoderFailed):
        CachedEncoder(failing, store).documents(texts)
    whole = Gated()
    encoder = CachedEncoder(whole, store)
    assert encoder.documents(texts).shape == (100, 32)
    assert len(whole.documents_asked) == 36
    assert encoder.encoded == 100


@pytest.mark.parametrize("blob", [b"", b"odd", np.full(32, np.nan, "<f2").tobytes()], ids=["empty", "odd", "nan"])
def test_damaged_vectors_are_as_if_they_were_not_there(store: SqliteVectorCache, blob: bytes) -> None:
    inner = Gated()
    encoder = CachedEncoder(inner, store)
    encoder.documents(["read"])
    store.put("hash", {hashlib.sha256(b"read").digest(): blob})
    assert np.allclose(encoder.documents(["read"]), hashed(["read"]), atol=1e-3)
    assert inner.documents_asked == ["read", "read"]


def test_a_query_asked_again_costs_nothing() -> None:
    inner = Gated()
    encoder = CachedEncoder(inner, None)
    first = encoder.queries(["read", "write"])
    again = encoder.queries(["write", "read", "read"])
    assert inner.queries_asked == ["read", "write"]
    assert (again == first[[1, 0, 0]]).all()


def test_queries_are_forgotten_in_the_end_and_are_not_those_of_another_model() -> None:
    inner = Gated()
    encoder = CachedEncoder(inner, None)
    for number in range(600):
        encoder.queries([f"query {number}"])
    encoder.queries(["query 599"])
    assert len(inner.queries_asked) == 600
    encoder.queries(["query 0"])
    assert len(inner.queries_asked) == 601
    inner.name = "another"
    encoder.queries(["query 599"])
    assert len(inner.queries_asked) == 602


def test_texts_that_are_no_text_have_vectors_all_the_same(store: SqliteVectorCache) -> None:
    """JSON can hold half of a surrogate pair."""
    assert CachedEncoder(Gated(), store).documents(["\ud800 read"]).shape == (1, 32)
