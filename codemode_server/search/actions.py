"""Classes of verbs (list, read, create, delete …) of tools and subqueries, and how well one class answers another;
and how a query is split into subqueries.

Queries match tools by nouns far more often than by verbs: `show me the keys in the vault` contains every word of
`key_create`. So the verb is compared separately, in eleven classes. The classes and the table are our own choice; tool
annotations are not used, since most tools have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.naming import words
from codemode_server.search.words import STOP_WORDS, stem, stems

Kinds = NDArray[np.int8]

_KINDS = {
    "list": "list enumerate browse",
    "read": """get show read view display retrieve fetch describe return see tell give provide open obtain what which
        who""",
    "search": "search find query seek discover lookup locate filter",
    "create": """create add make new insert generate build register provision compose write draft initialize schedule
        book install save""",
    "update": """update edit modify change set alter patch adjust rename replace configure move assign enable put reset
        restore revert switch transfer undo""",
    "delete": "delete remove drop erase destroy clear purge uninstall cancel disable unset forget",
    "send": "send post publish share reply forward notify submit upload",
    "run": "run execute invoke launch trigger start stop play connect navigate restart resume retry",
    "check": """check verify validate diagnose monitor analyze analyse detect investigate assess compare audit scan
        evaluate test inspect""",
    "convert": """convert transform translate transcribe calculate compute parse format encode decode extract summarize
        synthesize recognize render""",
    "download": "download export",
}
_KINDS_IN_NAMES = {
    "create": "commit clone fork record stage upload",
    "update": "checkout format merge pull push rebase sync",
    "send": "broadcast dial",
    "run": "click drag fill press trigger type",
}
"""Verbs in names of tools that are nouns in most queries; used to classify tools, not queries."""
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_UNKNOWN = len(_KINDS)
_READING = frozenset(_NUMBER[kind] for kind in ("list", "read", "search", "check", "download"))
_CHANGING = frozenset(_NUMBER[kind] for kind in ("create", "update", "delete", "send", "run"))

_ANSWERS = """
             list read search create update delete send  run check convert download
    list      1.0  .75    .70    .00    .00    .00  .00  .20   .40     .30      .40
    read      .85 1.00    .80    .15    .10    .00  .10  .30   .60     .50      .60
    search    .75  .75   1.00    .10    .10    .00  .10  .30   .40     .30      .40
    create    .10  .20    .10   1.00    .50    .00  .50  .40   .20     .55      .30
    update    .10  .15    .10    .45   1.00    .10  .30  .40   .20     .30      .10
    delete    .10  .10    .10    .00    .35   1.00  .10  .20   .10     .10      .00
    send      .10  .10    .10    .60    .35    .00 1.00  .40   .10     .20      .10
    run       .20  .30    .40    .40    .40    .10  .40 1.00   .50     .40      .30
    check     .50  .80    .60    .20    .15    .00  .10  .40  1.00     .60      .30
    convert   .20  .50    .30    .60    .30    .00  .20  .40   .50    1.00      .30
    download  .30  .75    .40    .30    .10    .00  .10  .30   .20     .40     1.00
"""
"""How well a tool of the kind in the column answers a subquery of the kind in the row; 0.5 is neutral."""

_NOUN_CHANGE_PENALTY = 1.0

_POLITE_WORDS = """
    i want to need would like please can could you help me my us let s the a an for also then and of
"""
_POLITE = frozenset(_POLITE_WORDS.split())
_FIRST_WORDS = 8
_READ_ENDS = {"in", "of", "for", "from", "with", "on", "to", "by"}
_MANY = {"all", "every", "each", "any"}
_NO_PLURALS = {"details", "this", "status", "address", "access"}


def kind_of(name: str, description: str) -> int:
    """The kind of a tool. Looks at the first and last word of its name, then at every word of the name, then at the
    first word of the description, and last for verbs that are nouns in most queries (`commit` in `commit history`)."""
    in_name = [word.lower() for word in words(name)[:20]]
    ends = [*in_name[:1], *in_name[-1:]]
    opening = [word.lower() for word in words(description[:60])[:1]]
    rarely = (_in_names().get(stem(word), _UNKNOWN) for word in (*opening, *ends))
    kinds = chain(map(_kind, (*ends, *in_name, *opening)), rarely)
    return next((kind for kind in kinds if kind != _UNKNOWN), _UNKNOWN)


def agreement(subquery: str, kinds: Kinds) -> NDArray[np.float32]:
    """How well each kind answers a subquery: -0.5 not at all, 0.5 exactly, 0 if either is unknown."""
    row = _row(subquery)
    return _answers()["unknown" if row is None else row][kinds]


def short_agreements(parts: Sequence[str], kinds: Kinds) -> NDArray[np.float32]:
    """`agreement` for a short query and its parts, one row each. A part without a verb takes that of the part before
    it; if none has a verb, tools that read rank before those that write: `commit history` does not ask for a commit."""
    rows: list[int | str] = []
    before: int | str = "noun"
    for part in parts:
        before = row if (row := _row(part)) is not None else before
        rows.append(before)
    return np.stack([_answers()[row] for row in rows])[:, kinds]


def is_verb(word: str) -> bool:
    return _kind(word) != _UNKNOWN


def is_reading_verb(word: str) -> bool:
    return _kind(word) in _READING


def _row(subquery: str) -> int | str | None:
    """The row of the table for a subquery; None if it has no verb."""
    asked = [word.lower() for word in re.findall(r"[^\W\d_]+", subquery[:300])]
    asked = [word for word in asked if word not in _POLITE]
    for place, word in enumerate(asked[:_FIRST_WORDS]):
        kind = _kind(word)
        if kind != _UNKNOWN:
            is_many = kind == _NUMBER["read"] and _names_many(asked[place + 1 : place + 7])
            return "many" if is_many else kind
    return None


def _names_many(following: list[str]) -> bool:
    """True if the object of the verb is a plural: `show me the keys in …`."""
    for word in following:
        if word in _MANY:
            return True
        if word in _READ_ENDS:
            return False
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in _NO_PLURALS:
            return True
    return False


@cache
def _answers() -> dict[int | str, NDArray[np.float32]]:
    heads, *lines = (line.split() for line in _ANSWERS.strip().splitlines())
    rows: dict[int | str, NDArray[np.float32]] = {}
    for kind, *answers in lines:
        row = np.zeros(_UNKNOWN + 1, np.float32)
        for head, answer in zip(heads, answers, strict=True):
            row[_NUMBER[head]] = float(answer) - 0.5
        rows[_NUMBER[kind]] = row
    many = rows[_NUMBER["read"]].copy()
    many[[_NUMBER["list"], _NUMBER["read"]]] = 0.5, 0.0
    unknown = np.zeros(_UNKNOWN + 1, np.float32)
    noun = unknown.copy()
    noun[list(_CHANGING)] = -_NOUN_CHANGE_PENALTY
    return rows | {"many": many, "noun": noun, "unknown": unknown}


@cache
def _by_stem() -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, verbs in _KINDS.items():
        for verb in verbs.split():
            found[stem(verb)] = found[verb] = _NUMBER[kind]
    return found


@cache
def _in_names() -> dict[str, int]:
    return {stem(verb): _NUMBER[kind] for kind, verbs in _KINDS_IN_NAMES.items() for verb in verbs.split()}


def _kind(word: str) -> int:
    known = _by_stem()
    return known.get(word, known.get(stem(word), _UNKNOWN))


_MAX_SUBQUERIES = 8
_MIN_WORDS = 3
"""Minimum length of a subquery without stop words; a shorter clause belongs to its neighbour."""
_MAX_SHORT_WORDS = 8
"""A query of up to this length is more likely a list of nouns than a sentence, so its parts may be single words."""
_MAX_SHORT_CHARACTERS = 200

_CLAUSE_VERBS = """
find get search list show create make send write read generate convert calculate compute check compare analyze
summarize fetch retrieve give tell provide suggest recommend identify determine download save upload add update delete
remove set look help explain describe plan book schedule translate extract draw plot visualize evaluate estimate
measure track monitor also include share post open run build design use ensure
"""
_CLAUSE_END = re.compile(
    r"(?<=[.!?])\s+|[;；。！？\n]|,\s|，"
    r"|\b(?:and then|then|also|finally|additionally|furthermore|moreover|as well as|afterwards|next)\b"
    rf"|\band\s+(?=(?:{'|'.join(_CLAUSE_VERBS.split())})\b)",
    re.IGNORECASE,
)
_PART_END = re.compile(r"\s+and\s+(?:then\s+)?|\s+(?:plus|then)\s+|\s*[,;+&]\s*(?:and\s+)?", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")


def subqueries(query: str) -> tuple[str, ...]:
    parts = (part.strip() for part in _CLAUSE_END.split(query) if part)
    found = [part for part in parts if len(stems(part)) >= _MIN_WORDS]
    return tuple(found[:_MAX_SUBQUERIES]) if len(found) > 1 else ()


def is_short(query: str) -> bool:
    return len(query) <= _MAX_SHORT_CHARACTERS and len(_WORD.findall(query)) <= _MAX_SHORT_WORDS


def short_parts(query: str) -> tuple[str, ...]:
    """The parts of a short query such as `commit history and diffs`, if each has a noun: `search and replace text` is
    one."""
    if not is_short(query):
        return ()
    parts = tuple(part.strip() for part in _PART_END.split(query) if part and part.strip())
    return parts if len(parts) > 1 and all(map(_names_a_thing, parts)) else ()


def _names_a_thing(part: str) -> bool:
    found = [word.lower() for word in _WORD.findall(part)]
    return any(not (is_verb(word) or word in STOP_WORDS or word in _POLITE) for word in found)
