"""Reads, adds and removes an entry in a host's file of any syntax, and checks each edit before anybody sees it.

The check parses the new text anew: it must hold the old data and the change, and nothing else.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from codemode_server.config.host_files import json_edits, toml_edits, yaml_edits
from codemode_server.config.host_files.spans import HostFileNotEditable, Path
from codemode_server.config.host_places import Syntax

BOM = b"\xef\xbb\xbf"
MAX_BYTES = {"json": 16 * 2**20, "toml": 2**20, "yaml": 2**20}
"""Claude Code keeps the history of its projects in the same file as its servers."""


def decoded(content: bytes, syntax: Syntax) -> str:
    """The text without its byte order mark. Raises `HostFileNotEditable`."""
    if len(content) > MAX_BYTES[syntax]:
        raise HostFileNotEditable(f"it is larger than {MAX_BYTES[syntax] // 2**20} MiB")
    try:
        return content.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        raise HostFileNotEditable("it is not UTF-8 here", content.count(b"\n", 0, error.start) + 1) from None


def encoded(text: str, before: bytes) -> bytes:
    """The bytes of the text, with the byte order mark that `before` had."""
    return (BOM if before.startswith(BOM) else b"") + text.encode()


def read(text: str, syntax: Syntax) -> Any:
    """The data; an empty mapping for an empty file. Raises `HostFileNotEditable` if it can't be parsed."""
    data = _module(syntax).read(text)
    if not isinstance(data, dict):
        raise HostFileNotEditable("it is not a mapping of keys to values")
    return data


def find(data: Any, path: Path) -> Any:
    """The value at `path`, or None."""
    for key in path:
        if isinstance(data, list):
            data = next((item for item in data if isinstance(item, dict) and item.get("name") == key), None)
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data


def with_entry(text: str, syntax: Syntax, path: Path, value: Mapping[str, Any], *, is_list: bool = False) -> str:
    """The text with this entry. Raises `HostFileNotEditable`."""
    expected = copy.deepcopy(read(text, syntax))
    if not _is_encodable([path, value]):
        raise HostFileNotEditable("the entry has half of a character, which no file can have; edit it by hand")
    if syntax == "yaml":
        changed = yaml_edits.with_member(text, path, value, is_list=is_list)
    else:
        changed = _module(syntax).with_member(text, path, value)
    _set(expected, path, value, is_list=is_list)
    _check(changed, syntax, expected)
    return changed


def without_entry(text: str, syntax: Syntax, path: Path, made: Path | None = None) -> str:
    """The text without the entry, which must be there, and without the mapping `made` for it if it is empty then.

    Raises:
        HostFileNotEditable: it can't be removed safely.
    """
    expected = copy.deepcopy(read(text, syntax))
    if made is not None and syntax != "toml" and _is_alone(find(expected, made), path[len(made) :]):
        path = made
    changed: str = _module(syntax).without_member(text, path)
    _delete(expected, path)
    _check(changed, syntax, expected)
    return changed


def _is_alone(data: Any, path: Path) -> bool:
    """Whether nothing but the entry at `path` is there, at any level."""
    for key in path:
        if not isinstance(data, dict | list) or len(data) != 1:
            return False
        data = find(data, (key,))
    return data is not None


def _module(syntax: Syntax) -> Any:
    return {"json": json_edits, "toml": toml_edits, "yaml": yaml_edits}[syntax]


def _is_encodable(value: Any) -> bool:
    """Whether UTF-8 has all characters of the value: JSON can escape half of one."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _set(data: Any, path: Path, value: Mapping[str, Any], *, is_list: bool) -> None:
    for depth, key in enumerate(path[:-1]):
        if data.get(key) is None:
            data[key] = [] if is_list and depth == len(path) - 2 else {}
        data = data[key]
    if isinstance(data, list):
        _delete(data, path[-1:])
        data.append({"name": path[-1], **value})
    else:
        data[path[-1]] = dict(value)


def _delete(data: Any, path: Path) -> None:
    container = find(data, path[:-1]) if len(path) > 1 else data
    if isinstance(container, list):
        container[:] = [item for item in container if not (isinstance(item, dict) and item.get("name") == path[-1])]
    elif isinstance(container, dict):
        container.pop(path[-1], None)


def _check(text: str, syntax: Syntax, expected: Any) -> None:
    """Raises `HostFileNotEditable` unless the text holds these data.

    Empty mappings and nothing at all are the same here: removing the last table of TOML leaves neither header nor key.
    """
    try:
        found = read(text, syntax)
    except HostFileNotEditable:
        found = None
    if _without_empty(found) != _without_empty(expected):
        raise HostFileNotEditable("its layout is one that can't be edited safely; edit it by hand")


def _without_empty(data: Any) -> Any:
    if isinstance(data, dict):
        inner = {key: _without_empty(value) for key, value in data.items()}
        return {key: value for key, value in inner.items() if value not in ({}, [], None)}
    return [_without_empty(item) for item in data] if isinstance(data, list) else data
