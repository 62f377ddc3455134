"""Static encoder: a text's vector is the sum of the vectors of its words and word pieces, from a table.

It needs no model and no download: the table is a file of a few megabytes that is mapped into memory, and a query takes
tens of microseconds. `static_table.md` has the provenance and licences of the table.
The table depends on the tokenizer in this module: a change of the tokenizer requires building the table anew.

File format: a magic line, a line of JSON, then the tokens in UTF-8, each followed by a newline; the scale
of each token as little-endian float32; a row of int8 for each token. A token's vector is its row times its scale. The
header has the SHA-256 of the rest of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import re
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codemode_server.domain.errors import EncoderFailed

TABLE = Path(__file__).with_name("static_table.bin")
MAGIC = b"codemode-server static table 1\n"

_MAX_TEXT_CHARACTERS = 8_000
_MAX_WORD_CHARACTERS = 32
"""Characters. Longer words are keys and hashes, whose pieces are noise."""
_MAX_MIXED_WORD_CHARACTERS = 12
"""The same for words of letters and digits, which are more often identifiers."""
_MAX_CACHED_WORDS = 4_096
_BATCH_TEXTS = 256
"""Bounds the memory of encoding: about 20 MB."""


class StaticEncoder:
    """The `Encoder` that uses the static table. Usable in any thread."""

    description = "static table"

    def __init__(self, path: Path = TABLE) -> None:
        self._path = path
        self._tokens: Tokenizer | None = None
        self._lock = threading.Lock()
        self.name = ""

    def load(self) -> None:
        with self._lock:
            try:
                header, self._file, start = _mapped(self._path)
                tokens, dimensions = header["tokens"], header["dimensions"]
                scales_at = start + header["vocabulary_bytes"]
                vocabulary = self._file[start:scales_at].decode("utf-8").split("\n")[:-1]
                self._scales = np.frombuffer(self._file, "<f4", tokens, scales_at)
                self._rows = np.frombuffer(self._file, np.int8, -1, scales_at + 4 * tokens).reshape(tokens, dimensions)
            except (OSError, KeyError, TypeError, ValueError) as error:
                reason = f"the static table {str(self._path)!r} can't be read: {error}"
                raise EncoderFailed(reason, "reinstall codemode-server") from error
            self.name, self._tokens = f"static-{header['sha256'][:12]}", Tokenizer(vocabulary)

    def close(self) -> None:
        """It has nothing to close."""

    def has_word(self, word: str) -> bool:
        """True if a lower-case word has a vector of its own."""
        return self._tokens is not None and len(self._tokens.of(word)) == 1

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._lock:
            if self._tokens is None:
                raise EncoderFailed("it is not loaded", may_retry=True)
            vectors = np.zeros((len(texts), self._rows.shape[1]), np.float32)
            for start in range(0, len(texts), _BATCH_TEXTS):
                self._encode(self._tokens, texts[start : start + _BATCH_TEXTS], vectors[start : start + _BATCH_TEXTS])
            return vectors

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self.queries(texts)
        if sys.platform == "linux":
            # Many texts touch most of the table, a query a few rows, which come again from the system's cache.
            self._file.madvise(mmap.MADV_DONTNEED)
        return vectors

    def _encode(self, tokenizer: Tokenizer, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        tokens: list[int] = []
        weights: list[float] = []
        known: list[int] = []
        starts: list[int] = []
        for number, text in enumerate(texts):
            counts = Counter(tokenizer.of(text))
            if counts:
                known.append(number)
                starts.append(len(tokens))
                tokens += counts
                # Square root, so that repeated words do not dominate.
                weights += map(math.sqrt, counts.values())
        if known:
            scales = self._scales[tokens] * np.array(weights, np.float32)
            sums = np.add.reduceat(self._rows[tokens] * scales[:, None], starts)
            vectors[known] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


class Tokenizer:
    """Splits text into whole words that the vocabulary has, else into their longest pieces from the left, written
    `##so` as in WordPiece (Schuster and Nakajima, 2012). In scripts without spaces, every piece is a word."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary), default=0)
        self._tokens = lru_cache(_MAX_CACHED_WORDS)(lambda word: tuple(self._of_word(word)))

    def of(self, text: str) -> list[int]:
        found: list[int] = []
        for word in _WORD.findall(_folded(text[:_MAX_TEXT_CHARACTERS])):
            found += self._tokens(word)
        return found

    def _of_word(self, word: str) -> Iterator[int]:
        if (number := self._numbers.get(word)) is not None:
            yield number
        elif _UNSPACED.match(word):
            yield from self._pieces(word, within="")
        elif len(word) > _MAX_WORD_CHARACTERS:
            return
        elif word.isalpha() or not word.isascii():
            yield from self._pieces(word, within="##")
        elif len(word) <= _MAX_MIXED_WORD_CHARACTERS and not _KEY.search(word):
            for letters in _LETTERS.findall(word):
                yield from self._of_word(letters)

    def _pieces(self, word: str, within: str) -> Iterator[int]:
        start = 0
        while start < len(word):
            before = within if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if (number := self._numbers.get(before + word[start:end])) is not None:
                    yield number
                    start = end
                    break
            else:
                start += 1


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCRIPTS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(f"[{_SCRIPTS}]")
_WORD = re.compile(rf"[{_SCRIPTS}]+|[^\W_{_SCRIPTS}]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_KEY = re.compile(r"\d{4}")
_LETTERS = re.compile(r"[a-z]{2,}")


def _folded(text: str) -> str:
    text = _CAMEL.sub(" ", text).lower()
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _mapped(path: Path) -> tuple[dict[str, Any], mmap.mmap, int]:
    """The header, the file in memory, and where its body begins."""
    with path.open("rb") as file:
        line = file.readline().removeprefix(MAGIC) or file.readline()
        header, start = json.loads(line), file.tell()
        if header["sha256"] != hashlib.file_digest(file, "sha256").hexdigest():
            raise ValueError("it is damaged")
        return header, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), start
