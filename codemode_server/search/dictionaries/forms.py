"""The forms of verbs, nouns and adjectives by rule: enough for requests, not a grammar."""

from __future__ import annotations

from collections.abc import Iterator

_VERB_ENDINGS = {
    "german": {"en": " en e t est et", "n": " n e t st"},
    "french": {"er": "er e es ez ons é ée és ées ant"},
    "spanish": {
        "ar": "ar a as an o e es en amos ando ado ada +ar +a +e",
        "er": "er e es en o a an emos iendo ido ida +er +e +a",
        "ir": "ir e es en o a an imos iendo ido ida +ir +e +a",
    },
    "portuguese": {
        "ar": "ar a as am o e es em amos ando ado ada",
        "er": "er e es em o a am emos endo ido ida",
        "ir": "ir e es em o a am imos indo ido ida",
    },
    "italian": {
        "are": "are a i o ano ate iamo ando ato ata +ar +a",
        "ere": "ere e i o a ono ete iamo endo uto uta +er +i",
        "ire": "ire e i o a ono ite iamo endo ito ita +ir +i",
        "re": "re i e o +r +i",
    },
    "russian": {},
}
"""By how the verb ends; behind `+`, what pronouns are put at."""
_PRONOUNS = {"spanish": "me nos lo la los las le les melo mela", "italian": "mi ci lo la li le gli ne melo"}


def forms_of_verb(language: str, verb: str) -> Iterator[str]:
    """Of `busc/ar`: `buscar`, `busca`, `búscame` without its accent …"""
    stem, _, ending = verb.partition("/")
    endings = _VERB_ENDINGS[language].get(ending)
    if endings is None:
        raise ValueError(f"{language}: no such verbs as {verb}")
    yield stem + ending
    if endings.startswith(" "):
        yield stem
    for one in endings.split():
        if one.startswith("+"):
            yield from (stem + one[1:] + pronoun for pronoun in _PRONOUNS[language].split())
        else:
            yield stem + one


def forms_of_noun(language: str, noun: str, is_plural: bool) -> Iterator[tuple[str, bool]]:
    """The other forms and whether they are plurals."""
    last = noun[-1]
    if language == "german":
        if is_plural:
            if noun.endswith(("e", "er", "el")):
                yield noun + "n", True
        elif last != "e":
            yield noun + "s", False
            yield noun + "es", False
            if noun.endswith(("er", "el")):
                yield noun + "n", True
    elif language == "russian":
        if last in "бвгдзклмнпрстфхц":
            yield from ((noun + ending, False) for ending in ("а", "у", "ом", "е"))
            yield from ((noun + ending, True) for ending in ("ы", "и", "ов", "ам", "ами", "ах"))
    elif is_plural or " " in noun or language == "italian":
        return
    elif language == "french":
        if last not in "sxz":
            yield noun + "s", True
    elif last in "aeiouáéíóú":
        yield noun + "s", True
    elif last in "lnrdzój" and not noun.endswith("s"):
        yield noun + "es", True


def forms_of_adjective(language: str, adjective: str) -> Iterator[str]:
    """Its other genders and numbers."""
    if " " in adjective:
        return
    if language == "german":
        endings, stem = "e er es en em", adjective
    elif language == "french":
        endings, stem = "e s es", adjective
    elif language in ("spanish", "portuguese", "italian") and adjective.endswith("o"):
        endings, stem = "i a e he hi" if language == "italian" else "os a as", adjective[:-1]
    elif language in ("spanish", "portuguese"):
        endings, stem = "s es", adjective
    else:
        return
    yield from (stem + ending for ending in endings.split())


def plural(english: str) -> str:
    """The plural of an English noun, of several words of the last."""
    if english in _NO_PLURAL or english[0].isupper():
        return english
    if english == "person":
        return "people"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + ("es" if english.endswith(("s", "x", "ch", "sh")) else "s")


_NO_PLURAL = {"data", "news", "music", "weather", "statistics", "history", "money", "percent", "source code", "travel"}
