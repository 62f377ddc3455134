"""Reads server-sent events from the pieces of a stream, each within a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from codemode_server.processes.stream_readers import BoundedBytes

_MAX_FIELD_BYTES = 4 * 2**10
"""Longest id and type of an event."""


@dataclass
class ServerSentEvent:
    """A server-sent event."""

    data: BoundedBytes
    fields: dict[bytes, bytes] = field(default_factory=dict)
    """`event`, `id` and `retry`."""

    def encoded(self) -> bytes:
        lines = [b"%s: %s" % one for one in self.fields.items()]
        if self.data.size:
            lines += [b"data: " + line for line in bytes(self.data.data).split(b"\n")]
        return b"\n".join(lines) + b"\n\n"


class EventReader:
    """Bytes of a stream → its events. Comments are left out."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self._line = BoundedBytes(max_bytes())
        self._event = ServerSentEvent(BoundedBytes(max_bytes()))
        self._is_after_return = False

    @property
    def endless(self) -> BoundedBytes | None:
        """The data that have come of an event, if they are too long by now."""
        if self._event.data.is_too_long:
            return self._event.data
        if not self._line.is_too_long or not self._line.head.startswith(b"data:"):
            return None
        self._add_long(self._line)
        return self._event.data

    def read(self, piece: bytes) -> Iterator[ServerSentEvent]:
        if self._is_after_return and piece[:1] == b"\n":
            piece = piece[1:]
        self._is_after_return = piece[-1:] == b"\r"
        for line in piece.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            if len(content) == len(line):  # it goes on in the next piece
                self._line.add(content)
                return
            if self._line.size:
                self._line.add(content)
                whole, self._line = self._line, BoundedBytes(self._max_bytes())
                self._add_long(whole)
            elif content:
                self._add(content)
            elif self._event.fields or self._event.data.size:
                event, self._event = self._event, ServerSentEvent(BoundedBytes(self._max_bytes()))
                yield event

    def _add(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            if self._event.data.size:
                self._event.data.add(b"\n")
            self._event.data.add(value)
        elif name in (b"event", b"id", b"retry") and len(value) <= _MAX_FIELD_BYTES:
            self._event.fields[name] = value

    def _add_long(self, line: BoundedBytes) -> None:
        """As `_add`, for a line that came in several pieces; without a copy where it is all of the data."""
        if line.is_too_long:
            if line.head.startswith(b"data:"):
                before = self._event.data
                line.head = before.head or bytes(before.data[:_MAX_FIELD_BYTES]) or line.head[5:]
                self._event.data = line
        elif line.data.startswith(b"data:") and not self._event.data.size:
            del line.data[:5]
            line.size = len(line.data)
            self._event.data = line
        elif not line.data.startswith(b":"):
            self._add(bytes(line.data))
