"""Suggests known names for an unknown one: names that share its words, and names that it is a typing mistake for.

A tool is suggested only if the verb in its name has the same kind: `delete_file` does not suggest `edit_file`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

from codemode_server.catalog.naming import singular_of, words
from codemode_server.support.text import joined_within

_MAX_SUGGESTED = 3
_MAX_CHARACTERS = 100
"""Characters of the unknown name that are compared; programs may pass any length."""
_MAX_COMPARED = 200
"""Names or words that are compared by letters, which is slow, and the program may be hostile."""
_MAX_WORDS = 6
_MIN_WORD_CHARACTERS = 3
_SIMILARITY = 0.8
_LISTED_CHARACTERS = 200
_VERBS = {
    "read": "get list read show view search find fetch describe retrieve lookup count",
    "change": """create add make insert write update edit modify set append replace rename move copy save post send
        upload""",
    "delete": "delete remove drop erase destroy purge",
}
"""Verbs of a clear kind. Others, such as `open` and `run`, are ambiguous and exclude nothing."""
_KINDS = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs.split()}


def nearest_tools(name: str, known: Iterable[str]) -> str:
    """`nearest: a, b`, else all names if they fit on a line, else that `search_tools` finds tools."""
    names = sorted(known)
    if near := nearest_names(name, _of_same_kind(name, names)):
        return near
    listed = joined_within(names, _LISTED_CHARACTERS)
    return f"there are: {listed}" if listed == ", ".join(names) else "search_tools finds tools by what they do"


def nearest_servers(name: str, known: Iterable[str]) -> str:
    """`nearest: a` for a typing mistake, else the names, most similar first."""
    names = sorted(known)
    if meant := mistyped(name[:_MAX_CHARACTERS], names, _MAX_SUGGESTED):
        return f"nearest: {', '.join(meant)}"
    near = _nearest(name[:_MAX_CHARACTERS], names)
    return f"there are: {joined_within([*near, *(other for other in names if other not in near)], _LISTED_CHARACTERS)}"


def nearest_names(name: str, known: Iterable[str]) -> str:
    near = _nearest(name[:_MAX_CHARACTERS], sorted(known))
    return f"nearest: {', '.join(near)}" if near else ""


def mistyped_names(name: str, known: Iterable[str]) -> list[str]:
    """The tools, a few at most, for whose names this one is a typing mistake."""
    return mistyped(name[:_MAX_CHARACTERS], _of_same_kind(name, sorted(set(known))), _MAX_SUGGESTED)


def _of_same_kind(name: str, names: list[str]) -> list[str]:
    kind = _kind(name[:_MAX_CHARACTERS])
    return [other for other in names if kind is None or _kind(other) in (kind, None)]


def _kind(name: str) -> str | None:
    """The kind of the first unambiguous verb in the name of a tool; None if there is none."""
    return next((_KINDS[word.lower()] for word in words(name) if word.lower() in _KINDS), None)


def is_reading_name(name: str) -> bool:
    return _kind(name[:_MAX_CHARACTERS]) == "read"


def object_words(name: str) -> frozenset[str]:
    """The words in the name of a tool that are no verbs of a clear kind."""
    return _words(name[:_MAX_CHARACTERS]) - _KINDS.keys()


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """Names that share words with this one: rare words first, then the most similar."""
    if len(names) > _MAX_COMPARED:
        names = [candidate for candidate in names if candidate[:3] == name[:3]][:_MAX_COMPARED]
    words_of = {candidate: _words(candidate) for candidate in names}
    having = sorted({word for found in words_of.values() for word in found})
    shared: dict[str, float] = dict.fromkeys(mistyped(name, names, _MAX_SUGGESTED), 1.0)
    for word in sorted(_words(name))[:_MAX_WORDS]:
        same = {word, *mistyped(word, having, 10)}
        holders = [candidate for candidate, found in words_of.items() if same & found]
        for candidate in holders:
            shared[candidate] = shared.get(candidate, 0.0) + 1 / len(holders)
    ratio = {candidate: difflib.SequenceMatcher(None, name, candidate).ratio() for candidate in shared}
    return sorted(sorted(shared), key=lambda candidate: (-shared[candidate], -ratio[candidate]))[:_MAX_SUGGESTED]


def mistyped(written: str, known: Collection[str], most: int, compared: int = _MAX_COMPARED) -> list[str]:
    """Names within a typing mistake of it, the most similar first."""
    if len(known) > compared:
        known = [candidate for candidate in known if candidate[:1] == written[:1]][:compared]
    swapped = [name for name in known if name[:1] == written[:1] and sorted(name) == sorted(written)]
    return swapped[:most] or difflib.get_close_matches(written, known, n=most, cutoff=_SIMILARITY)


def _words(name: str) -> frozenset[str]:
    return frozenset(singular_of(word.lower()) for word in words(name) if len(word) >= _MIN_WORD_CHARACTERS)
