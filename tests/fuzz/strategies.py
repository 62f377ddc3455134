"""What the targets are fed: JSON values and texts made of what breaks parsers, bytes around them, and streams cut
anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Value = TypeVar("Value")
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 0))
"""Of each target, for `make fuzz`; the tests have a few, and the same ones each time."""
settings.register_profile(
    "fuzz",
    max_examples=EXAMPLES or 25,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("fuzz")

SHARDS = (
    *('"', "'", '"""', "\\", "\\\\", '\\"', "\n", "\r\n", "\r", "\t", "\x00", "\x0b", "\x0c", "\x1b[31m", "\x1b]0;"),
    *("\x7f", "\x85", "\u00ad", "\u200b", "\u2028", "\u202e", "\ufeff", "\U000e0041", "\ud800", "\udc00", "\\ud800"),
    *("{", "}", "[", "]", "(", ")", ",", ":", "#", "$", "${", "$$", ":-", "%", "&", "*", "!", "|", ">", "-", "---"),
    *("0", "1", "-1", "1e400", "1.50", "NaN", "true", "null", "None", "9" * 30, "a", "b", "from", "é", "ﬁ", "漢", "😀"),
    *("```json\n", "\n```", "data: ", "event: ", "//", "/*", "*/", "<!--", "=", "\\x", "\\N{", "{{"),
)
ENCODED_SHARDS = [shard.encode("utf-8", "surrogatepass") for shard in SHARDS]
texts = st.one_of(
    st.lists(st.sampled_from(SHARDS), max_size=12).map("".join),
    st.text(st.characters(), max_size=40),
    st.text(max_size=10),
)
names = st.one_of(st.sampled_from(["a", "b", "id", "name", "from", "my-key", "ﬁ", "__x", ""]), texts)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 300),
    st.sampled_from([2**53, -(2**63), 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=5))


values: st.SearchStrategy[Any] = st.recursive(scalars, containers, max_leaves=25)
"""Any JSON value."""
objects = st.dictionaries(names, values, max_size=6)


def encoded(value: Any, how: int) -> bytes:
    """A JSON value as bytes, in one of the spellings that JSON has."""
    separators = (",", ":") if how & 1 else (" ,\n", " : ")
    if how & 2:
        return json.dumps(value, separators=separators).encode()
    return json.dumps(value, ensure_ascii=False, separators=separators).encode("utf-8", "surrogatepass")


spellings = st.integers(0, 3)


@st.composite
def damaged(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with up to three places changed, removed, doubled, or nested beyond all measure."""
    data = draw(source)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 8)))
        inserted = draw(st.one_of(st.binary(max_size=6), st.sampled_from(ENCODED_SHARDS), deep))
        data = data[:start] + inserted + data[end:]
    return data


deep = st.builds(
    lambda piece, times: piece * times,
    st.sampled_from([b"[", b"{", b'{"a":', b"(", b"${a:-", b"- ", b"[[]", b"]"]),
    st.sampled_from([1, 50, 150, 1_000, 3_000, 20_000]),
)


@st.composite
def pieces(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> list[bytes]:
    """A stream of bytes, cut wherever a pipe may cut it."""
    data = draw(source)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def every(value: Any, visit: Callable[[Any], None]) -> None:
    """Visit each value and key of a JSON value, without recursion."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        visit(inner)
        if isinstance(inner, dict):
            waiting += [*inner, *inner.values()]
        elif isinstance(inner, list):
            waiting += inner


def is_whole(value: Any) -> bool:
    """Whether a value can be sent on: JSON in UTF-8, with no number that JSON lacks."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


class Stream:
    """A byte stream of given pieces, for whatever reads one."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._left = [piece for piece in pieces if piece]
        self.sent = bytearray()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if not self._left:
            raise anyio.EndOfStream
        piece = self._left.pop(0)
        if len(piece) > max_bytes:
            self._left.insert(0, piece[max_bytes:])
        return piece[:max_bytes]

    async def send(self, item: bytes) -> None:
        self.sent += item

    async def aclose(self) -> None:
        self._left.clear()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def has_surrogates(value: Any) -> bool:
    found: list[Any] = []
    every(value, found.append)
    return any("\ud800" <= letter <= "\udfff" for text in found if isinstance(text, str) for letter in text)
