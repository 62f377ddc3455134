"""Puts values in place of tokens within longer texts, so that none ends the string around it. Pure.

A program that builds SQL or JSON sees the token and can't escape the value: `'<NAME_1>'` would become `'O'Neil'`. The
values come from upstreams, so that would also let whoever writes a name there write a statement here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from codemode_server.domain.privacy_tokens import TOKEN
from codemode_server.privacy.statements import Likeness, likeness

_MARKS = (
    "what {} stands for has quotation marks or others like them, and how this statement reads them is not certain; "
    "give it to a tool that takes the value as an argument of its own"
)
Values = Mapping[str, str | int | float]
"""Tokens → what they stand for."""
_OUTSIDE = re.compile(rf"{TOKEN.pattern}|['\"`]|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
"""What matters in SQL outside strings: a token, a mark that begins a string or a name, a comment."""
_INSIDE = {mark: re.compile(rf"{TOKEN.pattern}|{mark}") for mark in "'\"`"}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
"""What SQL reads as a value without quotation marks; a word could be the name of a column."""


_NUMBERED = re.compile(r"(.+) \((?:[2-9]|[1-9][0-9]+)\)", re.DOTALL)
"""A key as `known_values.DistinctKeys` makes it, or somebody else."""
_HARMLESS = re.compile(r"[\w @.,+-]*")
"""A value that ends no string in any language."""
_NEARLY_JSON = re.compile(r"\{\s*(?:[\"'}/]|\w+\s*:)|\[\s*[\[{\"'\d/-]")
"""How a text begins that may be JSON with comments, with a comma too many, or cut off; `[draft]` is prose."""
_JSON = json.JSONDecoder()
_BEFORE_JSON = "\ufeff \t\r\n"
_MAX_JSON_BEGINNING = 200
"""Characters of a string that show whether it is JSON."""
_OTHER_MARKS = re.compile(r"#|\\|\$\w*\$|\[")
"""What begins comments, escapes and strings in some databases only, so that where strings end is not certain."""


class NotPlaceable(ValueError):
    """Raised when a value can't be put in a text without changing what the rest of it means; the message says why."""


def with_values(value: Any, values: Values, *, is_sent: bool = True) -> Any:
    """A JSON value with the values of these tokens in their places. A text that is a token and nothing else becomes
    the value as JSON has it; a key and a longer text take it as text, escaped if the text is JSON or, if `is_sent`,
    SQL.

    Raises:
        NotPlaceable: not without `is_sent`.
    """
    return _with_values(value, values, "", is_sent)


def _with_values(value: Any, values: Values, key: str, is_sent: bool) -> Any:
    """`key` is that of the value, or of the list around it."""
    if isinstance(value, str):
        return values[value] if value in values else _within(value, values, key, is_sent)
    if isinstance(value, dict):
        made = {
            _within(name, values, "", is_sent): _with_values(item, values, name, is_sent)
            for name, item in value.items()
        }
        if is_sent:
            _check_keys(value, values, len(made))
        return made
    if isinstance(value, list):
        return [_with_values(item, values, key, is_sent) for item in value]
    return value


def _check_keys(given: Mapping[str, Any], values: Values, count: int) -> None:
    """Raises NotPlaceable if keys would be the same with the values, of which `count` are different, or if one was made
    for a second key with the same token (`known_values.DistinctKeys`): with the value it would be no value."""
    if count < len(given):
        raise NotPlaceable("two keys of an object would be the same with what their privacy tokens stand for")
    for key in given:
        if key.endswith(")") and (numbered := _NUMBERED.fullmatch(key)) is not None:
            base = numbered[1]
            if base in values or (base in given and any(found[0] in values for found in TOKEN.finditer(base))):
                raise NotPlaceable(
                    f"the key '{key}' was made for a second key that has the same privacy token; two keys can't have "
                    f"one value, so send '{base}' once"
                )


def _within(text: str, values: Values, key: str, is_sent: bool) -> str:
    if "<" not in text or not any(found[0] in values for found in TOKEN.finditer(text)):
        return text
    begin = text.lstrip(_BEFORE_JSON)
    if begin[:1] in ("{", "[", '"') and (pieces := _json_pieces(text)):
        return "".join(_in_json(piece, values, is_sent) for piece in pieces)
    if not is_sent:
        return _plain(text, values)
    match likeness(text, key):
        case Likeness.SQL:
            return _in_sql(text, values)
        case Likeness.CODE:
            _check_marks(text, values, in_quotes=False)
        case Likeness.QUERY:
            _check_marks(text, values, in_quotes=True)
        case Likeness.PROSE:
            pass
    if _NEARLY_JSON.match(begin):
        _check_ends(text, values)
    return _plain(text, values)


def _json_pieces(text: str) -> list[str]:
    """The parts of a text that is JSON, or several values of JSON one after the other, as in JSON Lines; each begins
    with the white space before it. Empty if the text is something else."""
    pieces: list[str] = []
    place = start = 0
    while True:
        while start < len(text) and text[start] in _BEFORE_JSON:
            start += 1
        if start == len(text):
            return [*pieces, text[place:]] if place < start else pieces
        try:
            _, end = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        pieces.append(text[place:end])
        place = start = end


def _check_ends(text: str, values: Values) -> None:
    """Raises NotPlaceable if a value has something that may end a string in this text, or that no string may have."""
    marks = {mark for mark in _INSIDE if mark in text}
    for found in TOKEN.finditer(text):
        value = str(values.get(found[0], ""))
        if "\\" in value or not value.isprintable() or not marks.isdisjoint(value):
            raise NotPlaceable(
                f"what {found[0]} stands for has marks that this text, which is not quite JSON, may read as the end of "
                "a string; write valid JSON"
            )


def _check_marks(text: str, values: Values, *, in_quotes: bool) -> None:
    """Raises NotPlaceable if a value with marks would be put in; `in_quotes`: beside a quotation mark only, and an
    apostrophe may be put between double ones where the text has no other."""
    may_have_apostrophe = in_quotes and "'" not in text
    for found in TOKEN.finditer(text):
        token, (start, end) = found[0], found.span()
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        is_quoted = not {*before, *after}.isdisjoint(_INSIDE)
        value = str(values.get(token, ""))
        if may_have_apostrophe and before == after == '"':
            value = value.replace("'", "")
        if (is_quoted or not in_quotes) and not _HARMLESS.fullmatch(value):
            raise NotPlaceable(_MARKS.format(token))


def _plain(text: str, values: Values) -> str:
    return TOKEN.sub(lambda found: str(values.get(found[0], found[0])), text)


def _in_json(text: str, values: Values, is_sent: bool) -> str:
    """As it is written, where no value needs an escape; else written anew. `text` is JSON, or white space."""
    if not (held := text.strip(_BEFORE_JSON)):
        return text
    texts = {token: str(value) for token, value in values.items()}
    meant, plain = with_values(json.loads(held), texts, is_sent=is_sent), _plain(text, values)
    try:
        is_meant = json.loads(plain.strip(_BEFORE_JSON)) == meant
    except ValueError:
        is_meant = False
    return plain if is_meant else text[: text.index(held)] + json.dumps(meant, ensure_ascii=False)


def _in_sql(text: str, values: Values) -> str:
    """With quotation marks doubled, as SQL writes them in a string, and only where a value can end nothing."""
    if _OTHER_MARKS.search(text):
        _check_marks(text, values, in_quotes=False)
    pieces: list[str] = []
    place, quote, start = 0, "", 0
    while found := (_INSIDE[quote] if quote else _OUTSIDE).search(text, place):
        piece = found[0]
        if piece in _INSIDE:
            is_doubled = text.startswith(2 * piece, place - 1) and not quote  # stands for one, and the string goes on
            start = start if quote or is_doubled else found.end()
            quote = "" if quote else piece
        elif piece in values and quote:
            _check_json(piece, values[piece], text[start : start + _MAX_JSON_BEGINNING])
        pieces += [text[place : found.start()], _for_sql(piece, values[piece], quote) if piece in values else piece]
        place = found.end()
    return "".join((*pieces, text[place:]))


def _check_json(token: str, value: str | int | float, string: str) -> None:
    """Raises NotPlaceable if the value would need an escape in JSON, and the string within SQL begins like that. With
    the escape it would have a backslash, which not every database reads in the same way."""
    begin, text = string.lstrip(_BEFORE_JSON), str(value)
    if (begin[:1] == '"' or _NEARLY_JSON.match(begin)) and json.dumps(text, ensure_ascii=False) != f'"{text}"':
        raise NotPlaceable(
            f"{token} stands in JSON within SQL, and what it stands for has marks that end a string there; have the "
            f"database make the JSON, by a function such as json_object('name', '{token}')"
        )


def _for_sql(token: str, value: str | int | float, quote: str) -> str:
    text = str(value)
    if not quote and not _NUMBER.fullmatch(text):
        raise NotPlaceable(f"{token} stands in SQL without quotation marks around it; write '{token}'")
    if "\\" in text:
        raise NotPlaceable(
            f"what {token} stands for has a backslash, which not every database reads in the same way within SQL; give "
            "it to a tool that takes the value as an argument of its own"
        )
    return text.replace(quote, 2 * quote) if quote else text
