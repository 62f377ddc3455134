"""Edits members of JSON, TOML and YAML files. Each edit is checked: the new text must hold the old data with this
change and nothing else. A path has keys from the root of the file; in a list, the `name` of an item."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from codemode_server.config import json_edits, yaml_edits
from codemode_server.config.document import MAX_DEPTH, parse, plain_data
from codemode_server.config.problems import Problems
from codemode_server.domain.errors import CodemodeError, SettingsError

Syntax: TypeAlias = Literal["json", "toml", "yaml"]
"""`json` may have comments and trailing commas."""
KeyPath: TypeAlias = tuple[str, ...]
_BOM = "\ufeff"
_FIRST_OF_TOML = re.compile(r"""(?:\s|#[^\n]*)*+(?:\[\[?[^\[\]\n]+\]\]?\s*(?:#[^\n]*)?(?:\n|$)|[\w."'-]+[ \t]*=)""")
_KEY_PART = r"""(?>[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(rf"(?<![\w.-]){_KEY_PART}(?>[ \t]*\.[ \t]*{_KEY_PART}){{{MAX_DEPTH}}}")
"""A key of more parts than this; `tomllib` takes time and memory that grow with the square of the parts."""


class NotEditable(CodemodeError):
    """Raised when a file can't be edited; nothing has been changed then. The message says what to do."""

    code = "not_editable"


def read(text: str, syntax: Syntax) -> dict[str, Any]:
    """The data; an empty mapping for an empty file. Raises `NotEditable` if it can't be parsed."""
    text = text.removeprefix(_BOM)
    if syntax == "json":
        return _read_json(text)
    if syntax == "toml":
        return _read_toml(text)
    problems = Problems("")
    try:
        tree = parse(text, problems, is_json=False)
        if problems.found:
            raise problems.error()
    except SettingsError as error:
        first = str(error).splitlines()[0].lstrip(":- ")
        raise NotEditable(f"line {first}" if first[:1].isdigit() else first) from None
    data = plain_data(tree)
    return data if isinstance(data, dict) else {}


def looks_like_toml(text: str) -> bool:
    """True if the first line with content is TOML; no YAML configuration begins like that."""
    return _FIRST_OF_TOML.match(text) is not None


def find(data: Any, path: Sequence[str]) -> Any:
    """The value at `path`, or None."""
    for key in path:
        if isinstance(data, list):
            data = next((item for item in data if isinstance(item, dict) and item.get("name") == key), None)
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data


def with_members(text: str, syntax: Syntax, path: KeyPath, members: Mapping[str, Any]) -> str:
    """The text with these members at `path`, in place of those of the same names. Raises `NotEditable`."""
    module: Any = {"json": json_edits, "toml": _Toml, "yaml": yaml_edits}[syntax]
    expected = copy.deepcopy(read(text, syntax))
    _at(expected, path).update(copy.deepcopy(dict(members)))
    return _checked(text, syntax, lambda plain: module.with_members(plain, path, members), expected)


def with_item(text: str, syntax: Syntax, path: KeyPath, item: Any, index: int | None = None) -> str:
    """The text with this item in the list at `path`, before the one at `index` or behind all. Raises `NotEditable`."""
    expected = copy.deepcopy(read(text, syntax))
    items = list(find(expected, path) or [])
    items.insert(len(items) if index is None else index, item)
    _at(expected, path[:-1])[path[-1]] = items
    if syntax == "yaml":
        return _checked(text, syntax, lambda plain: yaml_edits.with_item(plain, path, item, index), expected)
    return with_members(text, syntax, path[:-1], {path[-1]: items})


def without_item(text: str, syntax: Syntax, path: KeyPath, index: int) -> str:
    """The text without the item at `index` of the list at `path`. Raises `NotEditable`."""
    expected = copy.deepcopy(read(text, syntax))
    items = find(expected, path)
    del items[index]
    if syntax == "yaml":
        return _checked(text, syntax, lambda plain: yaml_edits.without_item(plain, path, index), expected)
    return with_members(text, syntax, path[:-1], {path[-1]: items})


def without_member(text: str, syntax: Syntax, path: KeyPath) -> str:
    """The text without the member at `path`, which must be there. Raises `NotEditable`."""
    module: Any = {"json": json_edits, "toml": _Toml, "yaml": yaml_edits}[syntax]
    expected = copy.deepcopy(read(text, syntax))
    container = find(expected, path[:-1])
    if isinstance(container, list):
        container[:] = [item for item in container if find([item], path[-1:]) is None]
    elif isinstance(container, dict):
        container.pop(path[-1], None)
    return _checked(text, syntax, lambda plain: module.without_member(plain, path), expected)


def _at(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """The mapping at `path`, which is made if it is not there."""
    for key in path:
        if not isinstance(data.get(key), dict):
            data[key] = {}
        data = data[key]
    return data


def _read_json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)  # most files of many megabytes are strict
    except (ValueError, RecursionError):
        data = None
    try:
        if data is None:
            strict = json_edits.strict_json(text)
            data = json.loads(strict) if strict.strip() else {}
    except json.JSONDecodeError as error:
        raise NotEditable(f"line {error.lineno}: this is not valid JSON") from None
    except RecursionError:
        raise NotEditable("it is nested too deeply") from None
    except ValueError:
        raise NotEditable("it has a number with too many digits") from None
    if not isinstance(data, dict):
        raise NotEditable("it is not a mapping of keys to values")
    return data


def _read_toml(text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):
        raise NotEditable("it is nested too deeply")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise NotEditable(f"{f'line {at[1]}: ' if at else ''}this is not valid TOML") from None
    except (RecursionError, MemoryError):
        raise NotEditable("it is nested too deeply") from None


def _checked(text: str, syntax: Syntax, edit: Callable[[str], str], expected: Any) -> str:
    """The edited text, if it holds the expected data. An empty mapping and nothing at all are the same here."""
    bom = _BOM if text.startswith(_BOM) else ""
    try:
        changed = edit(text.removeprefix(_BOM))
        changed.encode()  # JSON can escape half of a character, which no file can have
        is_expected = _without_empty(read(changed, syntax)) == _without_empty(expected)
    except (ValueError, KeyError, IndexError, StopIteration, TypeError, RecursionError, NotEditable):
        is_expected = False
    if not is_expected:
        raise NotEditable(
            "its layout is one that can't be edited without changing something else, for instance since other entries "
            "refer to this one; edit it by hand"
        )
    return bom + changed


def _without_empty(data: Any) -> Any:
    if isinstance(data, dict):
        inner = {key: _without_empty(value) for key, value in data.items()}
        return {key: value for key, value in inner.items() if value not in ({}, [], None)}
    return [_without_empty(item) for item in data] if isinstance(data, list | tuple) else data


class _Toml:
    @staticmethod
    def with_members(text: str, path: KeyPath, members: Mapping[str, Any]) -> str:
        import tomlkit

        document = tomlkit.parse(text)
        if not any(key in (find(document.unwrap(), path) or {}) for key in members):
            # Tables can be given again at the end, whatever stands between them.
            for key in reversed(path):
                members = {key: members}
            gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
            newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
            return text + (gap + tomlkit.dumps(members)).replace("\n", newline)
        here: Any = document
        for key in path:
            here = here[key]
        for key, value in members.items():
            here[key] = value
        return tomlkit.dumps(document)

    @staticmethod
    def without_member(text: str, path: KeyPath) -> str:
        import tomlkit

        document: Any = tomlkit.parse(text)
        here = document
        for key in path[:-1]:
            here = here[key]
        del here[path[-1]]
        return tomlkit.dumps(document)
