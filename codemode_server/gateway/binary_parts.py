"""Takes the base64 of images and files out of a reply while it is searched for personal data, and puts it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.privacy.replacing import TextFile, from_base64, text_of_file, to_base64
from codemode_server.sandbox.contract import Reply

_LISTS = ("content", "contents", "messages")
"""The keys of raw results below which the protocol has blocks."""
_KEYS = ("data", "blob")
_BLOCKS_BELOW = ("content", "resource", "beside", "files")
_BLOCK_DEPTH = 6
"""How deep a block can be."""


Place = tuple[str | int, ...]


class BinaryPart(NamedTuple):
    """The base64 of a file in a reply."""

    place: Place
    data: str

    @property
    def file(self) -> TextFile | None:
        """Its text, if it is no binary file."""
        return text_of_file(from_base64(self.data) or b"\0")

    def with_text(self, file: TextFile, text: str) -> BinaryPart:
        """The part with another text in the encoding of its file."""
        return BinaryPart(self.place, to_base64(file.bytes_of(text), self.data))


def without_binary(reply: Reply) -> tuple[JsonValue, list[BinaryPart]]:
    """The value with nothing in place of the base64 of its files, and that. What is no base64 stays, as a text."""
    value = reply.value
    lists: list[tuple[Place, Any]] = [((), value)] if reply.encoding == "blocks" else []
    if isinstance(value, dict):
        lists = [((name,), value.get(name)) for name in _LISTS]
    places = [place for start, items in lists for place in _places_of(items, start) if len(place) <= _BLOCK_DEPTH]
    parts = [BinaryPart(place, _at(value, place)) for place in places]
    parts = [part for part in parts if from_base64(part.data) is not None]
    return _with(value, ((part.place, None) for part in parts)) if parts else value, parts


def with_binary(value: JsonValue, parts: Sequence[BinaryPart]) -> JsonValue:
    """The value of `without_binary` with these files in it."""
    return _with(value, parts) if parts else value


def _with(value: JsonValue, parts: Any) -> JsonValue:
    value = _copied(value, _BLOCK_DEPTH)
    for place, data in parts:
        _at(value, place[:-1])[place[-1]] = data
    return value


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _copied(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {key: _copied(item, depth - 1) for key, item in value.items()}
    return [_copied(item, depth - 1) for item in value] if depth and isinstance(value, list) else value


def _places_of(value: Any, place: Place) -> Iterator[Place]:
    """Where blocks have files, also those of the resources in them; not within the values of a block."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _KEYS and isinstance(item, str):
                yield (*place, key)
            elif key in _BLOCKS_BELOW:
                yield from _places_of(item, (*place, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _places_of(item, (*place, at))
