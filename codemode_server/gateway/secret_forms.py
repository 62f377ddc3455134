"""Recognizes forms that ask for a secret, by all words that the person reads in them.

A warning that comes too often is no longer read, so words that also have a harmless meaning count only where they can
be meant as a secret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.text import clean

_WORDS = re.compile(
    r"pass ?w(?:or|ört)|passw|pass ?(?:code|phrase)|kennwort|secret(?!ar)|credential"
    r"|\b(?:api|private|access|secret) ?keys?\b"
    r"|\btokens?\b|\bpins?\b|\bpin ?codes?\b|\bt?otp\b|\b(?:2|m)fa\b|\bone ?time ?(?:code|key|pass)"
    r"|\b(?:verification|security|authenticat\w{1,6}|backup|recovery|login|sms) ?codes?\b"
    r"|\b(?:recovery|seed|backup) ?(?:phrase|words?|keys?)\b|\bseed\b|\bmnemonic|\bcv[vc]2?\b|card ?number"
    r"|social ?security|\bssn\b"
)
_HARMLESS = re.compile(
    r"\b(?:max(?:imum)?|min(?:imum)?|(?:number|amount|count) of|how many|total|(?:in|out)put|prompt|completion|context"
    r"|reasoning|thinking)(?: new| output| input)? tokens\b"
    r"|\btokens? (?:limit|count|budget|usage|length|window|symbol|supply|balance|standard|type|per)\b"
    r"|\b(?:random|rng|noise) seed\b|\bseed (?:data|round|funding|urls?|nodes?|companies|company)\b"
    r"|(?:^|\b(?:want to|like to|should (?:i|we)) )pin (?:this|that|the|it|an?)\b"
    r"|\bgpio pins?\b|\bpin (?:mode|layout)\b|\bpostal pin ?codes?\b|\bsecret santa\b"
)
"""Phrases in which such a word is no secret."""
_AMOUNTS = re.compile(r"\b(?:tokens?|seed)\b")
"""Names of numbers that are no secrets."""
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def asks_for_secret(params: Mapping[str, Any]) -> bool:
    """True if a form seems to ask for a secret, by its message and the names and texts of its fields."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties.items() if isinstance(properties, dict) else ()
    texts = [params.get("message"), *(text for _, field in fields for text in _texts(_without_title(field)))]
    return any(_means_secret(_as_read(text)) for text in texts if isinstance(text, str)) or any(
        _labels_secret(name, field) for name, field in fields
    )


def _labels_secret(name: str, field: Any) -> bool:
    """True if the name and the title of a field mean a secret that can be entered in it."""
    kind, title = (field.get("type"), field.get("title")) if isinstance(field, dict) else (None, None)
    if kind == "boolean":
        return False
    labels = [_as_read(label) for label in (name, title) if isinstance(label, str)]
    if kind in ("integer", "number"):
        labels = [_AMOUNTS.sub(" ", label) for label in labels]
    return any(map(_means_secret, labels))


def _means_secret(text: str) -> bool:
    return _WORDS.search(_HARMLESS.sub(" ", text)) is not None


def _without_title(field: Any) -> Any:
    return {name: part for name, part in field.items() if name != "title"} if isinstance(field, dict) else field


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
    """In lowercase letters without accents, with one space between words."""
    letters = "".join(it for it in unicodedata.normalize("NFKD", clean(text)) if not unicodedata.combining(it))
    return _BETWEEN_WORDS.sub(" ", letters).casefold()
