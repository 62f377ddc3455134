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

Values = Mapping[str, str | int | float]
"""Tokens → their values."""
_SQL = re.compile(
    r"(?>\s+|--[^\n]*\n|/\*.*?\*/|[(;])*+(?:select|insert|update|delete|replace|merge|with|call|exec|execute|values|create"
    r"|alter|drop|set|declare|begin|explain)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a statement, after white space, comments and brackets."""
_STATEMENT = re.compile(
    rf"{_SQL.pattern}|(?>\s+|[(;])*+(?:pragma|show|grant|revoke|match|do|refresh|truncate|copy|use|analyze|prepare)\b",
    _SQL.flags,
)
_CLAUSE = re.compile(r"\b(?:from|set|where|into|values|call|exec(?:ute)?)\b", re.IGNORECASE)
_COMPARED = re.compile(rf"(?:['\"(=<>]|\blike)\s*%?{TOKEN.pattern}", re.IGNORECASE)
"""With such a beginning and a clause before it, this is no prose."""
_SQL_KEY = re.compile(r"sql|statement|stmt|^query$")
_QUERY_KEY = re.compile(
    r"quer(?:y|ies)|filter|where|formula|predicate|condition|criteria|expression"
    r"|^(?:q|command|cmd|expr|script|code|cypher|jql|cql|kql|spl|gql)$"
)
"""Names of arguments that take a statement of some language or a condition: `where_clause`, `filterByFormula`."""
_OUTSIDE = re.compile(rf"{TOKEN.pattern}|['\"`]|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
"""The marks that matter in SQL outside strings: a token, a mark that begins a string or a name, a comment."""
_INSIDE = {mark: re.compile(rf"{TOKEN.pattern}|{mark}") for mark in "'\"`"}
_UNCERTAIN = re.compile(r"#|\\|\$\w*\$|\[")
"""Marks of comments, escapes and strings in some databases only, so that where strings end is not certain."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
"""A value that SQL reads without quotation marks; a word could be the name of a column."""
_HARMLESS = re.compile(r"[\w @.,+-]*")
"""A value that ends no string in any language."""
_HARMLESS_IN_PROSE = re.compile(rf"{_HARMLESS.pattern}(?:(?<=\w)'(?=\w){_HARMLESS.pattern})?")
"""With one apostrophe a statement has an error, and prose a name: `O'Neil`."""
_NEARLY_JSON = re.compile(r"\{\s*(?:[\"'}/]|\w+\s*:)|\[\s*[\[{\"'\d/-]")
"""The beginning of a text that may be JSON with comments, with a comma too many, or cut off; `[draft]` is prose."""
_SPACE = "\ufeff \t\r\n"
_JSON = json.JSONDecoder()


class NotPlaceable(ValueError):
    """Raised when a value can't be put in a text without changing the meaning of the rest; the message says why."""


def with_values(value: Any, values: Values, key: str = "") -> Any:
    """A JSON value with the values of these tokens in their places. A text that is a token and nothing else becomes the
    value as JSON has it; a key and a longer text take it as text, escaped if the text is JSON or SQL. `key` is that of
    the value, or of the list around it. Raises `NotPlaceable` if a value would change the meaning of what is around
    it."""
    if isinstance(value, str):
        return values[value] if value in values else _within(value, values, key)
    if isinstance(value, dict):
        made = {_within(name, values, ""): with_values(item, values, name) for name, item in value.items()}
        if len(made) < len(value):
            raise NotPlaceable("two keys of an object would be the same with what their privacy tokens stand for")
        return made
    return [with_values(item, values, key) for item in value] if isinstance(value, list) else value


def _within(text: str, values: Values, key: str) -> str:
    if "<" not in text or not any(found[0] in values for found in TOKEN.finditer(text)):
        return text
    if text.lstrip(_SPACE)[:1] in ("{", "[", '"') and (pieces := _json_pieces(text)):
        return "".join(_in_json(piece, values) for piece in pieces)
    name = key.replace("_", "").casefold()
    clause = _CLAUSE.search(text) if _SQL.match(text) else None
    is_compared = clause is not None and _COMPARED.search(text, clause.end()) is not None
    if is_compared or (_SQL_KEY.search(name) and _SQL.match(text)):
        return _in_sql(text, values)
    if _SQL_KEY.search(name) or _QUERY_KEY.search(name) or _NEARLY_JSON.match(text.lstrip(_SPACE)):
        _check_harmless(text, values, _HARMLESS)
    elif _STATEMENT.match(text):
        _check_harmless(text, values, _HARMLESS_IN_PROSE)
    return _plain(text, values)


def _check_harmless(text: str, values: Values, harmless: re.Pattern[str], *, in_quotes_only: bool = True) -> None:
    """Raises NotPlaceable if a value with marks would be put in a text of a language that is not known for certain,
    with `in_quotes_only` in what may be a string. An apostrophe may stand between double quotation marks where the text
    has no other."""
    counts, place = dict.fromkeys(_INSIDE, 0), 0
    for found in TOKEN.finditer(text):
        counts = {mark: count + text.count(mark, place, found.start()) for mark, count in counts.items()}
        place = found.start()
        before, after = text[max(0, place - 1) : place], text[found.end() : found.end() + 1]
        is_quoted = before in counts or after in counts or any(count % 2 for count in counts.values())
        value = str(values.get(found[0], ""))
        if in_quotes_only and before == after == '"' and "'" not in text:
            value = value.replace("'", "")
        if (is_quoted or not in_quotes_only) and not harmless.fullmatch(value):
            raise NotPlaceable(
                f"what {found[0]} stands for has quotation marks or others like them, and how this text reads them is "
                "not certain; write valid JSON, or give it to a tool that takes the value as an argument of its own"
            )


def _plain(text: str, values: Values) -> str:
    return TOKEN.sub(lambda found: str(values.get(found[0], found[0])), text)


def _json_pieces(text: str) -> list[str]:
    """The parts of a text that is JSON, or several values of JSON one after the other, as in JSON Lines; each begins
    with the white space before it. Empty if the text is something else."""
    pieces: list[str] = []
    place = 0
    while rest := text[place:].lstrip(_SPACE):
        try:
            _, end = _JSON.raw_decode(text, len(text) - len(rest))
        except (ValueError, RecursionError):
            return []
        pieces.append(text[place:end])
        place = end
    return [*pieces, text[place:]]


def _in_json(text: str, values: Values) -> str:
    """As it is written, where no value needs an escape; else written anew. `text` is JSON, or white space."""
    if not (held := text.strip(_SPACE)):
        return text
    texts = {token: str(value) for token, value in values.items()}
    meant, plain = with_values(json.loads(held), texts), _plain(text, values)
    try:
        is_meant = json.loads(plain.strip(_SPACE)) == meant
    except ValueError:
        is_meant = False
    return plain if is_meant else text[: text.index(held)] + json.dumps(meant, ensure_ascii=False)


def _in_sql(text: str, values: Values) -> str:
    """With quotation marks doubled, as SQL writes them in a string, and only where a value can end nothing."""
    if _UNCERTAIN.search(text):
        _check_harmless(text, values, _HARMLESS, in_quotes_only=False)
    pieces: list[str] = []
    place, quote, start = 0, "", 0
    while found := (_INSIDE[quote] if quote else _OUTSIDE).search(text, place):
        piece = found[0]
        if piece in _INSIDE:
            is_doubled = text.startswith(2 * piece, place - 1) and not quote  # stands for one, and the string goes on
            start = start if quote or is_doubled else found.end()
            quote = "" if quote else piece
        is_token = piece in values
        pieces += [
            text[place : found.start()],
            _for_sql(piece, str(values[piece]), quote, text[start : start + 200]) if is_token else piece,
        ]
        place = found.end()
    return "".join((*pieces, text[place:]))


def _for_sql(token: str, value: str, quote: str, string: str) -> str:
    """A value as it is written in SQL in a string with this mark, which begins with `string`; none outside strings."""
    if not quote and not _NUMBER.fullmatch(value):
        raise NotPlaceable(f"{token} stands in SQL without quotation marks around it; write '{token}'")
    begin = string.lstrip(_SPACE)
    is_json = bool(quote) and (begin[:1] == '"' or _NEARLY_JSON.match(begin) is not None)
    if "\\" in value or (is_json and json.dumps(value, ensure_ascii=False) != f'"{value}"'):
        raise NotPlaceable(
            f"what {token} stands for has marks that not every database reads in the same way there; give it to a tool "
            f"that takes the value as an argument of its own, or write json_object('name', '{token}') for JSON"
        )
    return value.replace(quote, 2 * quote) if quote else value
