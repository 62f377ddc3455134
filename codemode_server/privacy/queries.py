"""Finds the queries in the arguments of a call, and reads what they call the fields of its result. Pure.

A text counts as a query if it has words or marks of one: what is no query has no aliases that a result would use. Only
what surely is one makes other results doubtful, or is remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from codemode_server.privacy.renamed_fields import NO_RENAMES, Renamed, RenamedFields
from codemode_server.privacy.renames import Renames, Source
from codemode_server.privacy.statements import GRAPHQL_BEGINNING, QUERY_BEGINNING, SELECTS

MAX_CHARACTERS = 50_000
"""Of all queries of a call that are read."""
_MAX_WORDS = 5_000
_MAX_DEPTH = 40
_UNREAD = ("fullname", "birthdate", "password")
"""What a query may name of which not even the words were read."""
_MAX_OTHER_CHARACTERS = 4_000
"""Of a query in another language than SQL; a longer text is a file."""
_OTHER_STEPS = re.compile(r"\b(?:return|output|project|extend|rename|eval)\b|\{[^{}]{0,1000}[:=]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d]\w{0,63}")
_PATH_NAME = re.compile(r"[^\W\d$]\w*")
_ALIAS_KEYS = ("alias", "as", "as_name", "asName")


def renamed_by(
    arguments: Mapping[str, Any], earlier: Mapping[str, Renamed] | None = None, *, misses_earlier: bool = False
) -> RenamedFields:
    """What the queries in these arguments call the fields of the result; `earlier` is what queries before them did, all
    of it or, with `misses_earlier`, a part."""
    renames, doubtful, left = Renames(), set[str](), MAX_CHARACTERS
    are_sure = True
    for text in _texts_in(arguments, renames, 0):
        is_short = len(text) <= _MAX_OTHER_CHARACTERS
        is_sql = SELECTS.search(text) is not None
        if not is_sql and not (is_short and _OTHER_STEPS.search(text)):
            continue
        is_sure = (is_sql and QUERY_BEGINNING.match(text)) or (is_short and GRAPHQL_BEGINNING.match(text))
        are_sure &= bool(is_sure)
        left -= len(text)
        if (left < 0 or not renames.add(text)) and is_sure:
            doubtful |= _words_of(text) if left > -MAX_CHARACTERS else {*_UNREAD}
    doubts = frozenset(doubtful)
    return RenamedFields(renames, doubts, earlier, is_sure=are_sure, misses_earlier=misses_earlier) or NO_RENAMES


def _words_of(text: str) -> set[str]:
    words = {it[0].casefold() for it in islice(_WORD.finditer(text), _MAX_WORDS + 1)}
    return {*words, *_UNREAD} if len(words) > _MAX_WORDS else words


def _texts_in(value: Any, renames: Renames, depth: int) -> Iterator[str]:
    """The texts of a value, also of JSON in a text; queries that are JSON themselves are read here."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if (held := _json_in(value)) is not None:
            yield from _texts_in(held, renames, depth + 1)
        else:
            yield value
    elif isinstance(value, dict):
        _read_pairs(value, renames)
        for item in value.values():
            yield from _texts_in(item, renames, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, renames, depth + 1)


def _json_in(text: str) -> Any:
    if len(text) > MAX_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_pairs(value: dict[str, Any], renames: Renames) -> None:
    """`{"who": "$name"}` and `{"field": "name", "alias": "who"}`."""
    for key, item in value.items():
        if paths := _paths_in(item):
            is_computed = not isinstance(item, str)
            renames.note(key.casefold(), {Source(it.casefold(), is_computed=is_computed) for it in paths})
    for key in _ALIAS_KEYS:
        if isinstance(alias := value.get(key), str):
            others = (it for name, it in value.items() if name != key and isinstance(it, str))
            renames.note(
                alias.casefold(),
                {Source(path[-1].casefold()) for it in others if (path := _PATH_NAME.findall(it[:200]))},
            )


def _paths_in(item: Any) -> list[str]:
    """The last names of the paths (`$person.name`) in an item, and in the objects and lists directly in it."""
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else (item,)
    texts = (it for one in inner for it in (one if isinstance(one, list) else (one,)) if isinstance(it, str))
    return [names[-1] for it in texts if it.startswith("$") and (names := _PATH_NAME.findall(it[:200]))]
