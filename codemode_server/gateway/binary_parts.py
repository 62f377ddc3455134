"""Takes the base64 of images and files out of a reply while it is searched for personal data, and puts it back."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply

_LISTS = ("content", "contents", "messages")
"""Of raw results, where the protocol has blocks."""
_KEYS = ("data", "blob")
_BLOCK_DEPTH = 6
"""How deep a block can be."""


def without_binary(reply: Reply) -> tuple[JsonValue, list[str]]:
    """The value with nothing in place of the base64 of its files, and that, in order."""
    binary: list[str] = []
    return _taken_out(reply.value, binary, is_blocks=reply.encoding == "blocks"), binary


def with_binary(value: Any, binary: list[str], encoding: str) -> JsonValue:
    """The value of `without_binary` with these files, in the same order."""
    left = iter(binary)
    for block in _blocks(value, is_blocks=encoding == "blocks") if binary else ():
        for key in _KEYS:
            if key in block and block[key] is None:
                block[key] = next(left, None)
    return value


def text_of(data: str) -> str | None:
    """The text that a file in base64 is, if it is one."""
    try:
        text = base64.b64decode(data).decode()
    except ValueError:
        return None
    return None if "\0" in text else text


def _taken_out(value: Any, binary: list[str], *, is_blocks: bool) -> Any:
    if not any(_holds_binary(block) for block in _blocks(value, is_blocks=is_blocks)):
        return value
    value = _copied(value, _BLOCK_DEPTH)
    for block in _blocks(value, is_blocks=is_blocks):
        for key in _KEYS:
            if isinstance(block.get(key), str):
                binary.append(block[key])
                block[key] = None
    return value


def _holds_binary(block: dict[str, Any]) -> bool:
    return any(isinstance(block.get(key), str) for key in _KEYS)


def _copied(value: Any, depth: int) -> Any:
    """A copy of the upper levels, in which blocks are."""
    if depth and isinstance(value, dict):
        return {key: _copied(item, depth - 1) for key, item in value.items()}
    return [_copied(item, depth - 1) for item in value] if depth and isinstance(value, list) else value


def _blocks(value: Any, *, is_blocks: bool) -> Iterator[dict[str, Any]]:
    """The blocks of a reply, also those of a raw result, with the resources in them."""
    lists = [value] if is_blocks else [value.get(name) for name in _LISTS] if isinstance(value, dict) else []
    for block in (it for items in lists if isinstance(items, list) for it in items if isinstance(it, dict)):
        beside = block.get("beside")
        files = beside.get("files") if isinstance(beside, dict) else None
        for one in (block, block.get("content"), *(files if isinstance(files, list) else ())):
            if isinstance(one, dict):
                resource = one.get("resource")
                yield from (one, resource) if isinstance(resource, dict) else (one,)
