"""Shows a JSON value as a tree, a list of dicts as a table, and a text with its line ends. Pure.

A page has a bounded part of a large value; each part that is left out is a link to a page of its own, which names it by
a path such as `/result/rows/7` and where to begin. A text that is JSON is shown as what it holds, unless a person
decides by it: of two equal keys only the last would be seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from urllib.parse import urlencode

from markupsafe import Markup

from codemode_server.domain.ids import JsonValue
from codemode_server.support.text import counted, legible

MAX_CHARACTERS = 100_000
"""Of all values of a page, about; its HTML is a few times as long."""
_MAX_ITEMS = 100
_MAX_COLUMNS = 12
_MAX_DEPTH = 16
_MAX_TEXT, _MAX_TEXT_ALONE = 4_000, 50_000
"""Characters of a text within a value, and of one that is the value."""
_FOLDED_FROM = 400
_LINE_CHARACTERS = 120
_MAX_KEY_CHARACTERS, _MAX_PATH_CHARACTERS = 200, 1_500
_ITEM_CHARACTERS = 50
"""What the HTML of an item takes beside its texts."""
_OPEN_ITEMS = 12
"""A dict or list on the second level is open at first if it has so few items; on the first one always."""


def value_html(value: JsonValue, path: str = "", *, start: int = 0) -> Markup:
    """A part of the value from its item, or character, number `start` on, with links to the rest of it."""
    return _Tree(MAX_CHARACTERS).root(value, path, start)


def whole_html(value: JsonValue) -> Markup:
    """All of the value."""
    return _Tree(inf).root(value, "", 0)


def part_at(value: JsonValue, path: str) -> JsonValue:
    """The part of the value that a link names. Raises `LookupError`: there is none."""
    for name in path.split("/")[1:]:
        value, name = _meant(value), name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list) and name.isdecimal():
            value = value[int(name[:9])]
        else:
            raise LookupError(path)
    return value


def summary(value: Mapping[str, JsonValue], most: int = 160) -> str:
    """`repo="acme/web", number=7`, cut to `most` characters."""
    parts = []
    for name, item in islice(value.items(), 20):
        text = json.dumps(item[:most] if isinstance(item, str) else item, ensure_ascii=False, default=str)
        parts.append(f"{name[:most]}={text[:most]}")
    text = ", ".join(parts)
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Tree:
    def __init__(self, characters: float) -> None:
        self._left = characters
        self._is_whole = characters == inf

    def root(self, value: JsonValue, path: str, start: int) -> Markup:
        value = self._meant(value)
        if isinstance(value, str) and value:
            return self._text(value, path, start, inf if self._is_whole else _MAX_TEXT_ALONE, is_folded=False)
        return self._html(value, path, start, 0)

    def _meant(self, value: JsonValue) -> JsonValue:
        return value if self._is_whole else _meant(value)

    def _html(self, value: JsonValue, path: str, start: int, depth: int) -> Markup:
        if isinstance(value, dict | list) and value:
            if depth >= _MAX_DEPTH:
                return _lines(json.dumps(value, default=str)) if self._is_whole else _rest("more within", path, 0)
            if isinstance(value, list) and (columns := _columns(value[start : start + _MAX_ITEMS])):
                return self._table(value, columns, path, start, depth)
            return self._items(value, path, start, depth)
        if isinstance(value, str) and value:
            return self._text(value, path, 0, inf if self._is_whole else _MAX_TEXT, is_folded=True)
        if isinstance(value, dict | list | str):
            empty = "empty text" if value == "" else "no items" if value == [] else "no keys"
            return Markup('<span class="quiet">{}</span>').format(empty)
        return Markup("<code>{}</code>").format(json.dumps(value, default=str))

    def _items(self, value: dict[str, JsonValue] | list[JsonValue], path: str, start: int, depth: int) -> Markup:
        pairs = value.items() if isinstance(value, dict) else ((str(n), it) for n, it in enumerate(value))
        shown = []
        for number, (name, given) in enumerate(islice(pairs, start, None), start):
            if self._is_full(number - start):
                shown.append(Markup("<li>{}</li>").format(_rest(f"{len(value) - number:,} more", path, number)))
                break
            self._left -= _ITEM_CHARACTERS + len(name)
            key = Markup('<span class="key">{}</span>').format(self._key(name))
            item, below = self._meant(given), f"{path}/{_escaped(name)}"
            shown.append(Markup("<li>{}</li>").format(self._item(key, given, item, below, depth)))
        return Markup('<ul class="tree">{}</ul>').format(Markup().join(shown))

    def _item(self, key: Markup, given: JsonValue, item: JsonValue, path: str, depth: int) -> Markup:
        if not isinstance(item, dict | list) or not item:
            return key + " " + self._html(item, path, 0, depth)
        size = counted(len(item), "key" if isinstance(item, dict) else "item") + (
            " in a text" if isinstance(given, str) else ""
        )
        is_open = self._is_whole or depth == 0 or (depth == 1 and len(item) <= _OPEN_ITEMS)
        return Markup('<details{}><summary>{} <span class="quiet">{}</span></summary>{}</details>').format(
            Markup(" open") if is_open else "", key, size, self._html(item, path, 0, depth + 1)
        )

    def _table(self, rows: list[JsonValue], columns: Sequence[str], path: str, start: int, depth: int) -> Markup:
        shown, rest = [], Markup()
        first = rows[0] if isinstance(rows[0], dict) else {}
        for number, row in enumerate(rows[start:], start):
            if self._is_full(number - start):
                rest = Markup("<p>{}</p>").format(_rest(f"{len(rows) - number:,} more", path, number))
                break
            self._left -= _ITEM_CHARACTERS * len(columns)
            cells = [self._cell(row, it, f"{path}/{number}/{_escaped(it)}", depth) for it in columns]
            shown.append(Markup('<tr><td class="number quiet">{}</td>{}</tr>').format(number, Markup().join(cells)))
        heads = Markup().join(
            Markup('<th scope="col"{}>{}</th>').format(
                Markup(' class="number"') if _is_number(first.get(it)) else "", self._key(it)
            )
            for it in columns
        )
        return Markup(
            '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table class="data numbers">'
            '<thead><tr><th scope="col" class="number">#</th>{}</tr></thead><tbody>{}</tbody></table></div>{}'
        ).format(heads, Markup().join(shown), rest)

    def _cell(self, row: JsonValue, column: str, path: str, depth: int) -> Markup:
        if not isinstance(row, dict) or column not in row:
            return Markup("<td></td>")
        given = row[column]
        if _is_number(given):
            return Markup('<td class="number">{}</td>').format(json.dumps(given))
        item = self._meant(given)
        if isinstance(item, dict | list) and item:
            return Markup("<td>{}</td>").format(self._item(Markup(), given, item, path, depth + 2))
        return Markup("<td>{}</td>").format(self._html(item, path, 0, depth))

    def _text(self, text: str, path: str, start: int, most: float, *, is_folded: bool) -> Markup:
        most = int(min(most, len(text)))
        part = text[start : start + most]
        self._left -= len(part)
        left_out = len(text) - start - len(part)
        rest = _rest(f"{left_out:,} more characters", path, start + most) if left_out > 0 else Markup()
        if "\n" not in part and len(part) <= _LINE_CHARACTERS:
            return Markup('<span class="text">{}</span> {}').format(legible(part), rest)
        if not is_folded or len(part) < _FOLDED_FROM:
            return _lines(part) + rest
        return Markup("<details><summary>{:,} characters</summary>{}{}</details>").format(len(text), _lines(part), rest)

    def _key(self, name: str) -> str:
        is_cut = len(name) > _MAX_KEY_CHARACTERS and not self._is_whole
        return f"{legible(name[:_MAX_KEY_CHARACTERS])}…" if is_cut else legible(name)

    def _is_full(self, count: int) -> bool:
        return not self._is_whole and (count >= _MAX_ITEMS or self._left <= 0)


def _columns(rows: Sequence[JsonValue]) -> list[str]:
    """The keys of dicts that make a table; none if they do not."""
    columns: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, dict):
            return []
        columns |= dict.fromkeys(row)
        if len(columns) > _MAX_COLUMNS:
            return []
    return [*columns] if len(rows) > 1 else []


def _meant(value: JsonValue) -> JsonValue:
    """What a text holds as JSON, if it is a dict or a list with items."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            held = json.loads(value)
            return held if held else value
    return value


def _rest(words: str, path: str, start: int) -> Markup:
    if len(path) > _MAX_PATH_CHARACTERS:
        return Markup('<span class="quiet">… {}</span>').format(words)
    return Markup('<a href="?{}">… {}</a>').format(urlencode({"at": path, "from": start}), words)


def _lines(text: str) -> Markup:
    return Markup("<pre>{}</pre>").format("\n".join(map(legible, text.split("\n"))))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
