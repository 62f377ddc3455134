"""Recognizes forms that ask for a secret, by all words that the person reads in them.

A server that wants a secret chooses its words: letters of other alphabets that look like Latin ones, and characters
that are not seen, make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.text import clean

_WORDS = re.compile(
    r"pass ?w(?:or|ört)|passw|pass ?(?:code|phrase)|kennwort|secret|credential|\b(?:api|private|access|secret) ?keys?\b"
    r"|\btokens?\b|\bpins?\b|\bpin ?codes?\b|\bt?otp\b|\b(?:2|m)fa\b|\bone ?time ?(?:code|key|pass)"
    r"|\b(?:verification|security|authenticat\w{1,6}|backup|recovery|login|sms) ?codes?\b"
    r"|\b(?:recovery|seed|backup) ?(?:phrase|words?|keys?)\b|\bseed\b|\bmnemonic|\bcv[vc]2?\b|card ?number"
    r"|social ?security|\bssn\b"
)
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_LOOKALIKES = str.maketrans(
    "авсԁеһіјкӏмнорԛѕтухѵԝгпАВСԀЕНІЈКӀМОРԚЅТУХѴԜαβεηικνορτυχωγϲΑΒΕΗΙΚΜΝΟΡΤΥΧΖϹıɑɡօո",
    "abcdehijklmhopqstyxvwrnABCDEHIJKlMOPQSTYXVWabenikvoptuxwycABEHIKMNOPTYXZCiagon",
)
"""Cyrillic, Greek and other letters, and the Latin ones that they look like."""


def asks_for_secret(params: Mapping[str, Any]) -> bool:
    """Whether a form seems to ask for a secret, by its message and the names and texts of its fields."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return any(_WORDS.search(_as_read(text)) for text in _texts([params.get("message"), properties]))


def _texts(value: Any) -> Iterator[str]:
    """All texts within a value, the names included."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case dict() as mapping:
                left.extend([*mapping, *mapping.values()])
            case list() as items:
                left.extend(items)


def _as_read(text: str) -> str:
    """In lowercase Latin letters without accents, with one space between words."""
    latin = unicodedata.normalize("NFKD", clean(text).translate(_LOOKALIKES))
    letters = "".join(it for it in latin if not unicodedata.combining(it)).translate(_LOOKALIKES)
    return _BETWEEN_WORDS.sub(" ", letters).casefold()
