"""Which of what is ranked is worth showing: weak results cost tokens and mislead, and a limit is no aim."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from codemode_server.search.deduplication import Folded
from codemode_server.search.documents import Findable
from codemode_server.search.ranker_stack import Level
from codemode_server.search.relevance import fit, words_of
from codemode_server.search.subqueries import wants
from codemode_server.search.words import without_values

_SHARE_BY_WORDS, _SHARE_BY_MEANING = 0.5, 0.6
_SHARE_OF_SEVERAL_BY_WORDS = 0.45
"""Results with a smaller share of the best score are hardly ever meant (`benchmarks/SEARCH.md`). The share by meaning
is larger, since everything is a little near to a query in meaning."""
_ALWAYS = 3
"""Results that are shown whatever they score, if there are as many."""
_FITS, _FITS_ONE_OF_SEVERAL = 0.2, 0.1
"""Below it nothing fits a query, or one want of several: requests with many wants are wordy."""
_FITTING_LOOKED_AT = 5
_MANY = 1_000
"""Things among which those bounds were found."""


def worth_showing(query: str, ranked: Sequence[Folded], level: Level) -> list[Folded]:
    """What is ranked without what is weak, in its order."""
    several = bool(wants(query))
    share = _SHARE_BY_MEANING
    if level == "lexical":
        share = _SHARE_OF_SEVERAL_BY_WORDS if several else _SHARE_BY_WORDS
    best = max((place.best.score for place in ranked), default=0.0)
    least = share * best
    return [place for number, place in enumerate(ranked) if number < _ALWAYS or place.best.score >= least]


def unmet(
    query: str,
    shown: Sequence[Findable],
    rarities: Callable[[str], Mapping[str, float]],
    among: int = _MANY,
    doubtful: Sequence[str] = (),
) -> list[str]:
    """The wants that none of the first of these fits; the whole query if that is so of all. `among` is the number of
    things that could be found: where there are few, a word that none of them has says little.

    `doubtful` are parts of the query too short for wants, which are unmet if none of these fits them.
    """
    several = wants(query)
    scale = min(1.0, math.log(1 + among) / math.log(1 + _MANY))
    least = scale * (_FITS_ONE_OF_SEVERAL if several else _FITS)
    words = [words_of(thing) for thing in (shown if several else shown[:_FITTING_LOOKED_AT])]
    missing = []
    for want in several or (query,):
        asked = rarities(without_values(want))
        if all(fit(found, asked) < least for found in words):
            missing.append(want)
    if len(missing) == max(1, len(several)):
        return [query]
    for part in doubtful:
        asked = rarities(without_values(part))
        if all(fit(words_of(thing), asked) < scale * _FITS for thing in shown):
            missing.append(part)
    return missing
