"""Takes the base64 of images and files out of a reply while it is searched for personal data, and puts it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.privacy.encodings import TextFile, from_base64, text_of_file, to_base64
from codemode_server.sandbox.contract import Reply

_LISTS = ("content", "contents", "messages")
"""The keys of raw results below which the protocol has blocks."""
_KEYS = ("data", "blob")
_BLOCK_DEPTH = 6
"""How deep a block can be."""


class BinaryPart(NamedTuple):
    """The base64 of a file in a reply."""

    place: tuple[str | int, ...]
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
    places = [*_places_of(reply.value, is_blocks=reply.encoding == "blocks")]
    parts = [BinaryPart(place, _at(reply.value, place)) for place in places]
    parts = [part for part in parts if from_base64(part.data) is not None]
    return _with(reply.value, ((part.place, None) for part in parts)) if parts else reply.value, parts


def with_binary(value: JsonValue, parts: Sequence[BinaryPart]) -> JsonValue:
    """The value of `without_binary` with these files in it."""
    return _with(value, parts) if parts else value


def _with(value: JsonValue, parts: Any) -> JsonValue:
    value = _copied(value, _BLOCK_DEPTH)
    for place, data in parts:
        _at(value, place[:-1])[place[-1]] = data
    return value


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def _copied(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {key: _copied(item, depth - 1) for key, item in value.items()}
    return [_copied(item, depth - 1) for item in value] if depth and isinstance(value, list) else value


def _places_of(value: Any, *, is_blocks: bool) -> Iterator[tuple[str | int, ...]]:
    """Where the blocks of a reply have files, also those of a raw result and the resources in them."""
    lists: list[tuple[tuple[str | int, ...], Any]] = []
    if is_blocks:
        lists = [((), value)]
    elif isinstance(value, dict):
        lists = [((name,), value.get(name)) for name in _LISTS]
    for place, items in lists:
        for at, block in enumerate(items if isinstance(items, list) else ()):
            if isinstance(block, dict):
                yield from _places_in_block(block, (*place, at))


def _places_in_block(block: dict[str, Any], place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    beside = block.get("beside")
    files = beside.get("files") if isinstance(beside, dict) else None
    inner: list[tuple[tuple[str | int, ...], Any]] = [(place, block), ((*place, "content"), block.get("content"))]
    if isinstance(files, list):
        inner += [((*place, "beside", "files", at), file) for at, file in enumerate(files)]
    for here, one in inner:
        for path, holder in (
            (here, one),
            ((*here, "resource"), one.get("resource") if isinstance(one, dict) else None),
        ):
            if isinstance(holder, dict):
                yield from ((*path, key) for key in _KEYS if isinstance(holder.get(key), str))
