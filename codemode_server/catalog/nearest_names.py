"""Suggests names for an unknown one, in error messages to the model.

A name is near if it is a typing mistake away or shares a word: the verb or the object of `delete_file`. Similar letters
alone do not suffice: `get_time` does not suggest `set_tile`. A tool is near only if its verb has the same kind:
`delete_file` does not suggest `edit_file`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

from codemode_server.catalog.naming import singular_of, words

_MAX_SUGGESTED = 3
_MAX_CHARACTERS = 100
"""Characters of the unknown name that are compared; programs may pass any length."""
_MAX_COMPARED = 200
"""Names or words that are compared by letters, which is slow, and the program may be hostile."""
_MAX_WORDS = 6
_MIN_WORD_CHARACTERS = 3
_SIMILARITY = 0.8
"""Minimum similarity, by difflib, of a typing mistake."""
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
    name, names = name[:_MAX_CHARACTERS], sorted(known)
    kind = _kind(name)
    alike = [other for other in _compared(name, names) if kind is None or _kind(other) in (kind, None)]
    if near := _nearest(name, alike):
        return f"nearest: {', '.join(near)}"
    listed = _listed(names)
    return f"there are: {listed}" if listed == ", ".join(names) else "search_tools finds tools by what they do"


def mistyped_names(name: str, known: Iterable[str]) -> list[str]:
    """The tools, a few at most, for whose names this one is a typing mistake."""
    name, names = name[:_MAX_CHARACTERS], sorted(set(known))
    kind = _kind(name)
    alike = [other for other in _compared(name, names) if kind is None or _kind(other) in (kind, None)]
    return _mistyped(name, alike, _MAX_SUGGESTED)


def nearest_servers(name: str, known: Iterable[str]) -> str:
    """`nearest: a` for a typing mistake, else the names, most similar first."""
    name, names = name[:_MAX_CHARACTERS], sorted(known)
    if mistyped := _mistyped(name, names, _MAX_SUGGESTED):
        return f"nearest: {', '.join(mistyped)}"
    near = _nearest(name, _compared(name, names))
    return f"there are: {_listed([*near, *(other for other in names if other not in near)])}"


def nearest_resources(name: str, known: Iterable[str]) -> str:
    """`nearest: a, b`; empty if none is near."""
    name, names = name[:_MAX_CHARACTERS], sorted(known)
    near = _nearest(name, _compared(name, names))
    return f"nearest: {', '.join(near)}" if near else ""


def _compared(name: str, names: Sequence[str]) -> Sequence[str]:
    """The names, or of many those with the same first letters."""
    if len(names) <= _MAX_COMPARED:
        return names
    return [candidate for candidate in names if candidate[:3] == name[:3]][:_MAX_COMPARED]


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """Names that share words with this one: rare words first, then the most similar."""
    words_of = {candidate: _words(candidate) for candidate in names}
    having = sorted({word for found in words_of.values() for word in found})
    shared: dict[str, float] = {}
    for word in sorted(_words(name))[:_MAX_WORDS]:
        same = {word, *_mistyped(word, having, 10)}
        holders = [candidate for candidate, found in words_of.items() if same & found]
        for candidate in holders:
            shared[candidate] = shared.get(candidate, 0.0) + 1 / len(holders)
    for candidate in _mistyped(name, names, _MAX_SUGGESTED):
        shared[candidate] = shared.get(candidate, 0.0) + 1

    def rank(candidate: str) -> tuple[float, float]:
        return -shared[candidate], -difflib.SequenceMatcher(None, name, candidate).ratio()

    return sorted(shared, key=rank)[:_MAX_SUGGESTED]


def _mistyped(written: str, known: Collection[str], most: int) -> list[str]:
    """Names within a typing mistake of it, the most similar first."""
    if len(known) > _MAX_COMPARED:
        known = [candidate for candidate in known if candidate[:1] == written[:1]][:_MAX_COMPARED]
    swapped = [name for name in known if name[:1] == written[:1] and sorted(name) == sorted(written)]
    return swapped[:most] or difflib.get_close_matches(written, known, n=most, cutoff=_SIMILARITY)


def _kind(name: str) -> str | None:
    """The kind of the first unambiguous verb in the name of a tool; None if there is none."""
    return next((_KINDS[word.lower()] for word in words(name) if word.lower() in _KINDS), None)


def _words(name: str) -> frozenset[str]:
    return frozenset(singular_of(word.lower()) for word in words(name) if len(word) >= _MIN_WORD_CHARACTERS)


def _listed(names: Sequence[str]) -> str:
    """`a, b, c`, or as many as fit on a line, and `and 7 more`."""
    shown: list[str] = []
    room = _LISTED_CHARACTERS
    for name in names:
        room -= len(name) + 2
        if room < 0 and shown:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown):,} more" if len(shown) < len(names) else ""
    return ", ".join(shown) + more
