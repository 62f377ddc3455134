"""Cuts values and text to a budget: values by structure, text between lines, or between records in a long line.

A value stays JSON: up to 25 items of a list, the keys of a dict and the beginning of a long text stay, and a count in
their place says how much was left out ("… 9,990 more items"). Each part of a value gets a fair share of the budget
first, and what a small part does not need goes to the larger ones, so no key vanishes behind a long neighbour.

The same value always gives the same cut, in time that grows with the value's size at most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from codemode_server.domain.ids import JsonValue
from codemode_server.support.json_values import values_in, with_texts_mapped
from codemode_server.support.text import counted
from codemode_server.support.tokens import estimate_tokens

CHARACTERS_PER_TOKEN = 6
"""So many characters at most for each token of a budget: hosts count characters, and blanks cost no token."""
_MAX_KEY = 120
_MIN_STRING = 16
_FEW_ITEMS, _MIN_WHOLE_ITEMS, _MAX_ITEMS = 3, 20, 25
"""Items of a list that has to be cut: those that are always shown, those for which others are left out rather than cut,
and those that are enough to see what the list has."""
_MIN_ITEM = 80
"""Characters for each item, or fewer items are shown."""
_MAX_KEYS = 60
"""A dict with more is no record, and cut like a list."""
_MARK = 26
"""Characters of `"… 1,234,567 more items"`."""
_TRIES = 12
_BORDERS = ("\n", "}, ", "},", ", ", " ")
"""Where a text is cut: after a line, a record of a list, an item, a word."""
Safe = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A value as it is shown."""

    value: JsonValue
    text: str
    is_cut: bool
    tokens: int
    """Size of the whole value."""


def as_text(value: JsonValue) -> str:
    """A value as the model reads it: text as it is, all else as JSON without blanks: a quarter fewer tokens."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fit_value(
    value: JsonValue,
    budget_tokens: int,
    max_characters: int | None = None,
    safe: Safe = str,
    whole: str | None = None,
) -> Fitted:
    """`value` within the budget, whole if it can be. `safe` is applied to each text that is left, before it is
    shortened: a secret that was cut would not be found. `whole` is `as_text(value)` if that is known already."""
    whole = as_text(value) if whole is None else whole
    tokens = estimate_tokens(whole)
    characters = budget_tokens * CHARACTERS_PER_TOKEN if max_characters is None else max_characters
    if tokens <= budget_tokens and len(whole) <= characters:
        value = with_texts_mapped(value, safe)
        return Fitted(value, as_text(value), False, tokens)
    if isinstance(value, str):
        cleaned_text = safe(value)
        text = fit_text(cleaned_text, budget_tokens, characters)
        return Fitted(text, text, True, estimate_tokens(cleaned_text))
    room = min(characters, round(len(whole) * budget_tokens / max(1, tokens)), len(whole) - 1)
    cut, text = value, whole
    for _ in range(_TRIES):  # what is left may cost more by the character than all of it did
        cut = with_texts_mapped(_cut(value, room, safe), safe)
        text = as_text(cut)
        cost = estimate_tokens(text)
        if cost <= budget_tokens and len(text) <= characters:
            break
        room = int(room * min(budget_tokens / max(1, cost), characters / len(text), 0.95) * 0.97)
    return Fitted(cut, text, True, tokens)


def fit_text(text: str, budget_tokens: int, max_characters: int | None = None, remedy: str = "") -> str:
    """`text` within the budget: its first and last lines, and between them how much is left out and the `remedy`."""
    characters = budget_tokens * CHARACTERS_PER_TOKEN if max_characters is None else max_characters
    total = estimate_tokens(text)
    if total <= budget_tokens and len(text) <= characters:
        return text
    room = min(characters, round(len(text) * budget_tokens / max(1, total))) - 60
    shown = text
    for _ in range(_TRIES):
        shown = _ends(text, max(2 * _MIN_STRING, room), total, remedy)
        cost = estimate_tokens(shown)
        if cost <= budget_tokens + 20 and len(shown) <= characters:
            break
        room = int(room * min(budget_tokens / max(1, cost), characters / len(shown), 0.95) * 0.97)
    return shown


def shares(wanted: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: each part gets the wanted size, but at most its fair share of the rest."""
    given = [0] * len(wanted)
    left = budget
    ascending = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for place, index in enumerate(ascending):
        given[index] = min(wanted[index], left // (len(wanted) - place))
        left -= given[index]
    return given


def _ends(text: str, room: int, total_tokens: int, remedy: str) -> str:
    head, tail = room * 2 // 3, len(text) - room // 3
    for border in _BORDERS:
        found = text.rfind(border, head // 2, head)
        if found >= 0:
            head = found + len(border)
            break
    for border in _BORDERS:
        found = text.find(border, tail, tail + (len(text) - tail) // 2)
        if found >= 0:
            tail = found + len(border)
            break
    lines = text.count("\n", head, tail)
    what = f"{tail - head:,} of {len(text):,} characters"
    if lines > 1:
        what = f"{lines:,} of {text.count(chr(10)) + (not text.endswith(chr(10))):,} lines"
    # Estimates of long texts are rough: as a difference, what is left out is never more than the whole.
    tokens = max(1, total_tokens - estimate_tokens(text[:head]) - estimate_tokens(text[tail:]))
    after = f"; {remedy}" if remedy else ""
    return f"{text[:head].rstrip()}\n[… {what} left out, about {tokens:,} tokens{after} …]\n{text[tail:]}"


def _cut(value: JsonValue, room: int, safe: Safe) -> JsonValue:
    """`value` in about `room` characters of JSON."""
    if _cost(value, room) <= room:
        return value
    if isinstance(value, str):
        return _cut_string(safe(value), room)
    if isinstance(value, list):
        return _cut_list(value, room, safe) if room > 2 * _MARK else [f"… {counted(len(value), 'more item')}"]
    if isinstance(value, dict):
        return _cut_dict(value, room, safe) if room > 2 * _MARK else {"…": f"… {counted(len(value), 'more key')}"}
    return value


def _cut_string(text: str, room: int) -> str:
    mark = f"… ({len(text):,} characters)"
    length = max(_MIN_STRING, room - len(mark) - 4)
    return text if length >= len(text) else text[:length].rstrip() + mark


def _cut_list(items: list[JsonValue], room: int, safe: Safe) -> list[JsonValue]:
    shown = _first(items, room - _MARK, safe)
    more = len(items) - len(shown)
    return [*shown, f"… {counted(more, 'more item')}"] if more else shown


def _first(items: list[JsonValue], room: int, safe: Safe) -> list[JsonValue]:
    """The first items: whole if 20 to 25 fit, else each cut to its share."""
    items = items[: min(_MAX_ITEMS, max(_FEW_ITEMS, room // _MIN_ITEM))]
    wanted = [min(_cost(item, room), room) + 1 for item in items]
    whole = sum(total <= room for total in accumulate(wanted))
    if whole >= min(_MIN_WHOLE_ITEMS, len(items)):
        return items[:whole]
    return [_cut(item, share - 1, safe) for item, share in zip(items, shares(wanted, room), strict=True)]


def _cut_dict(value: dict[str, JsonValue], room: int, safe: Safe) -> dict[str, JsonValue]:
    left = room - _MARK
    reserved = 0
    chosen: list[str] = []
    for key in islice(value, None if len(value) <= _MAX_KEYS else _MAX_ITEMS):
        least = min(_cost(value[key], _MIN_STRING), _MIN_STRING)
        cost = min(len(key), _MAX_KEY) + 4
        if cost + least > left and chosen:
            break
        chosen.append(key)
        left -= cost + least
        reserved += least
    left += reserved
    wanted = [min(_cost(value[key], left), left) for key in chosen]
    shown: dict[str, JsonValue] = {}
    for key, share in zip(chosen, shares(wanted, left), strict=True):
        name = key if len(key) <= _MAX_KEY else f"{safe(key)[:_MAX_KEY]}… ({len(key):,} characters)"
        shown[_unused(name, shown)] = _cut(value[key], share, safe)
    more = len(value) - len(chosen)
    if more:
        shown[_unused("…", value)] = f"… {counted(more, 'more key')}"
    return shown


def _unused(key: str, taken: dict[str, JsonValue]) -> str:
    while key in taken:
        key += "…"
    return key


def _cost(value: JsonValue, most: int) -> int:
    """Characters of `value` as JSON without blanks, nearly; counted no further than `most`."""
    total = 0
    for item in values_in(value, most=most):
        if isinstance(item, str):
            total += len(item) + 2
        elif isinstance(item, dict):
            total += 2 + 4 * len(item)
            if total <= most:
                total += sum(map(len, item))
        elif isinstance(item, list):
            total += 2 + len(item)
        else:
            total += len(str(item))
        if total > most:
            return most + 1
    return total
