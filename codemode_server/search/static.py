"""The static table: a vector for each word or piece of one, and a text's vector from those of its words.

No context, no model, no download: a few megabytes beside this file, read in some milliseconds, tens of microseconds a
query. `docs/static-table.md` is the recipe of the table; static_table.md tells of its provenance and
licences. The way from text to tokens is part of the table: whoever changes it here builds the table anew.

The form of the file: a line that names it, a line of JSON (`_Header`), and then, in this order and of exactly these
sizes, the tokens in UTF-8, each with a newline; a little-endian float32 per token, its scale; a row of int8 per token.
A row times its scale is the token's vector. The header has the SHA-256 of what follows it. Nothing in it is run.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codemode_server.domain.errors import EncoderFailed

TABLE = Path(__file__).with_name("static_table.bin")
MAGIC = b"codemode-server static table 1\n"

_LONGEST_TEXT = 8_000
"""Characters; what a tool says beyond them does not move its vector."""
_LONGEST_WORD = 32
"""Characters. Longer ones are keys and hashes, and their pieces would only be noise."""
_LONGEST_MIXED_WORD = 12
"""The same for words of letters and digits, which are identifiers sooner."""
_WORDS_KEPT = 50_000
_TEXTS_AT_ONCE = 256
"""Bounds the memory of encoding: about 20 MB."""


class _Header(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    tokens: int = Field(ge=1, le=1_000_000)
    dimensions: int = Field(ge=1, le=4_096)
    others_from: int = Field(ge=0)
    """The first of the tokens that are words of other languages than English; only the builder asks."""
    vocabulary_bytes: int = Field(ge=1, le=100_000_000)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    @property
    def body_bytes(self) -> int:
        return self.vocabulary_bytes + self.tokens * (4 + self.dimensions)


class StaticEncoder:
    """Texts → vectors by a static table. Safe in any thread, one call at a time."""

    def __init__(self, path: Path = TABLE) -> None:
        """Reads the table.

        Raises:
            EncoderFailed: it is not there, or not what its header says.
        """
        header, body = _read(path)
        scales_at = header.vocabulary_bytes
        rows_at = scales_at + 4 * header.tokens
        vocabulary = body[:scales_at].decode("utf-8").split("\n")[:-1]
        if len(vocabulary) != header.tokens:
            raise EncoderFailed(f"the static table {str(path)!r} has {len(vocabulary)} tokens, not {header.tokens}")
        self.name = f"static-{header.sha256[:12]}"
        """Another one for another table."""
        self.dimensions = header.dimensions
        self._tokens = Tokenizer(vocabulary)
        self._scales = np.frombuffer(body, "<f4", header.tokens, scales_at)
        self._rows = np.frombuffer(body, np.int8, -1, rows_at).reshape(header.tokens, header.dimensions)

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of unit length for each text; a row of zeros where no word of it is known."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            self._encode(texts[start : start + _TEXTS_AT_ONCE], vectors[start : start + _TEXTS_AT_ONCE])
        return vectors

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same: the table is one for both sides."""
        return self.documents(texts)

    def _encode(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        tokens: list[int] = []
        weights: list[float] = []
        known: list[int] = []
        starts: list[int] = []
        for number, text in enumerate(texts):
            counts = Counter(self._tokens.of(text))
            if counts:
                known.append(number)
                starts.append(len(tokens))
                tokens += counts
                # What is said four times counts twice: else what a tool repeats drowns what it is.
                weights += map(math.sqrt, counts.values())
        if known:
            scales = self._scales[tokens] * np.array(weights, np.float32)
            sums = np.add.reduceat(self._rows[tokens] * scales[:, None], starts)
            vectors[known] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


class Tokenizer:
    """Text → numbers of tokens: whole words where the vocabulary has them, else their longest pieces from the left.

    A piece within a word is written `##so` in the vocabulary, as in WordPiece (Schuster and Nakajima, 2012). In scripts
    without spaces a piece is a word.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary), default=0)
        self._seen: dict[str, tuple[int, ...]] = {}

    def of(self, text: str) -> list[int]:
        """The tokens of a text, in its order."""
        found: list[int] = []
        for word in _WORD.findall(_folded(text[:_LONGEST_TEXT])):
            numbers = self._seen.get(word)
            if numbers is None:
                numbers = tuple(self._of_word(word))
                if len(self._seen) >= _WORDS_KEPT:
                    self._seen.clear()
                self._seen[word] = numbers
            found += numbers
        return found

    def _of_word(self, word: str) -> Iterator[int]:
        if (number := self._numbers.get(word)) is not None:
            yield number
        elif _UNSPACED.match(word):
            yield from self._pieces(word, within="")
        elif len(word) > _LONGEST_WORD:
            return
        elif word.isalpha() or not word.isascii():
            yield from self._pieces(word, within="##")
        elif len(word) <= _LONGEST_MIXED_WORD and not _KEY.search(word):
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
    """In lower case, without accents, `camelCase` in words."""
    text = _CAMEL.sub(" ", text).lower()
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _read(path: Path) -> tuple[_Header, bytes]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EncoderFailed(f"the static table {str(path)!r} can't be read: {error.strerror}") from error
    header_end = content.find(b"\n", len(MAGIC))
    if not content.startswith(MAGIC) or header_end < 0:
        raise EncoderFailed(f"{str(path)!r} is no static table of this version")
    try:
        header = _Header.model_validate_json(content[len(MAGIC) : header_end])
    except ValidationError as error:
        raise EncoderFailed(f"the static table {str(path)!r} has no good header") from error
    body = content[header_end + 1 :]
    if len(body) != header.body_bytes or hashlib.sha256(body).hexdigest() != header.sha256:
        raise EncoderFailed(f"the static table {str(path)!r} is damaged", "install codemode-server anew")
    return header, body
