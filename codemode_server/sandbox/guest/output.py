"""Output of the program: stdout and stderr as frames, in order, early enough to survive a kill."""

from __future__ import annotations

import codecs
import collections
import io
import time
from collections.abc import Iterator
from typing import Any

from .encoded import without_bytes
from .link import Link, to_json

_PROMPT_WRITES = 2_000
"""So many writes are sent at once; the output of a program that prints more is collected for a moment."""
_COLLECT_CHARACTERS = 8_192
_COLLECT_SECONDS = 0.01


class Output(io.TextIOBase):
    encoding = "utf-8"
    errors = "replace"
    newlines = None

    def __init__(self, link: Link, stream: str) -> None:
        self._link = link
        self._stream = stream
        self._parts: collections.deque[str] = collections.deque()
        self._size = 0
        self._writes = 0
        self._sent_at = 0.0
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not text:
            return 0
        shown = without_bytes(text)
        self._parts.append(shown)
        self._size += len(shown)
        self._writes += 1
        if (
            self._writes <= _PROMPT_WRITES
            or self._size >= _COLLECT_CHARACTERS
            or time.monotonic() - self._sent_at > _COLLECT_SECONDS
        ):
            self.flush()
        return len(text)

    def flush(self) -> None:
        self._size = 0
        if self._parts:
            self._link.send_in_turn(self._frames)
        self._sent_at = time.monotonic()

    def _frames(self) -> Iterator[str]:
        taken = []
        while self._parts:  # one by one, so that what other threads print meanwhile is not lost
            taken.append(self._parts.popleft())
        text = "".join(taken)
        for start in range(0, len(text), 2**20):
            yield to_json({"op": "output", "stream": self._stream, "text": text[start : start + 2**20]})

    def close(self) -> None:
        """Nothing may close the program's output, not even the end of the interpreter."""


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`: bytes that are text in the end."""

    def __init__(self, text: Output) -> None:
        self._text = text
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._text.write(self._decode(bytes(data)))
        return len(data)

    def close(self) -> None:
        """As for the text stream."""
