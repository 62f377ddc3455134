"""Puts values in place of tokens within longer texts, so that none ends the string around it. Pure.

A program that builds SQL or JSON sees the token and can't escape the value: `'<NAME_1>'` would become `'O'Neil'`. The
values come from upstreams, so that would also let whoever writes a name there write a statement here. In JSON a value
is escaped, in SQL its apostrophes are doubled; whatever else may end a string in some language is refused.
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
_CLAUSE = re.compile(r"\b(?:from|set|where|into|values|call|exec(?:ute)?)\b", re.IGNORECASE)
_COMPARED = re.compile(rf"(?:['\"(=<>]|\blike)\s*%?{TOKEN.pattern}", re.IGNORECASE)
"""With such a beginning and a clause before it, this is no prose."""
_CODE_KEY = re.compile(
    r"sql|statement|stmt|quer(?:y|ies)|filter|where|formula|predicate|condition|criteria|expression"
    r"|^(?:q|command|cmd|expr|script|code|cypher|jql|cql|kql|spl|gql)$"
)
"""Names of arguments that take a statement of some language or a condition: `where_clause`, `filterByFormula`."""
_QUOTES = "'\"`"
_UNCERTAIN = re.compile(r"#|\\|\$\w*\$|\[|--|/\*")
"""Marks of comments, escapes and strings in some databases only, so that where strings end is not certain."""
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
"""A value that SQL reads without quotation marks; a word could be the name of a column."""
_HARMLESS = re.compile(r"[^'\"`\\${}\x00-\x1f\x7f]*")
"""A value that ends no string in any language."""
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
    is_code = _CODE_KEY.search(key.replace("_", "").casefold()) is not None
    is_sql = _SQL.match(text) is not None
    if is_sql and not is_code:
        clause = _CLAUSE.search(text)
        is_sql = is_code = clause is not None and _COMPARED.search(text, clause.end()) is not None
    if not (is_code or _NEARLY_JSON.match(text.lstrip(_SPACE))):
        return _plain(text, values)
    made, place, counts = list[str](), 0, dict.fromkeys(_QUOTES, 0)
    for found in TOKEN.finditer(text):
        before = text[place : found.start()]
        counts = {mark: count + before.count(mark) for mark, count in counts.items()}
        value = str(values.get(found[0], found[0]))
        is_known, place = found[0] in values, found.end()
        made += [before, _in_code(text, found, value, counts, is_sql=is_sql) if is_known else value]
    return "".join((*made, text[place:]))


def _in_code(text: str, token: re.Match[str], value: str, counts: Mapping[str, int], *, is_sql: bool) -> str:
    """A value as it is written in a text of some language. `counts`: how many of each quotation mark stand before it.
    An apostrophe may stand between double quotation marks where the text has no other."""
    marks = {mark for mark, count in counts.items() if count % 2}
    around = text[max(0, token.start() - 1) : token.start()], text[token.end() : token.end() + 1]
    is_quoted = bool(marks) or any(mark and mark in _QUOTES for mark in around)
    if is_sql and not is_quoted and not _NUMBER.fullmatch(value):
        raise NotPlaceable(f"{token[0]} stands in SQL without quotation marks around it; write '{token[0]}'")
    if not is_quoted or _HARMLESS.fullmatch(value):
        return value
    is_rest_harmless = _HARMLESS.fullmatch(value.replace("'", "")) is not None
    if is_rest_harmless and is_sql and marks == {"'"} and not _UNCERTAIN.search(text):
        return value.replace("'", "''")
    if is_rest_harmless and not is_sql and around == ('"', '"') and "'" not in text:
        return value
    raise NotPlaceable(
        f"what {token[0]} stands for has quotation marks or others like them, and how this text reads them is not "
        "certain; write valid JSON, or give it to a tool that takes the value as an argument of its own"
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
