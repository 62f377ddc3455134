"""Recognizes forms that ask for a secret, by all words that the person reads in them.

A warning that comes too often is no longer read, so words that also have a harmless meaning (`seed`, `tokens`) do
not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.json_values import texts_in
from codemode_server.text import clean

_WORDS = re.compile(
    r"pass ?w(?:or|ört)|passw|pass ?(?:code|phrase)|kennwort|\bsecret\b(?! santa)|credential"
    r"|\b(?:api|private|access|secret) ?keys?\b|\bt?otp\b|\b(?:2|m)fa code|\bone ?time ?(?:code|key|pass)"
    r"|\b(?:access|api|auth\w*|bearer|refresh|personal|your) tokens?\b|\btoken$|^pin(?: code)?$"
    r"|\b(?:verification|security|authenticat\w{1,6}|backup|recovery|login|sms) ?codes?\b"
    r"|\b(?:recovery|seed|backup) ?(?:phrase|words?)\b|\bmnemonic|\bcv[vc]2?\b|card ?number|social ?security|\bssn\b"
)
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def asks_for_secret(params: Mapping[str, Any]) -> bool:
    """True if a form seems to ask for a secret, by its message and the names and texts of its fields."""
    return any(_WORDS.search(_as_read(text)) for text in _texts(params))


def _texts(params: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a form; without the labels of fields that only take yes or no."""
    yield str(params.get("message") or "")
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, field in properties.items():
        if not isinstance(field, dict) or field.get("type") != "boolean":
            yield from (name, *texts_in(field))
        else:
            yield from texts_in({key: text for key, text in field.items() if key != "title"})


def _as_read(text: str) -> str:
    """In lowercase letters without accents, with one space between words."""
    letters = "".join(it for it in unicodedata.normalize("NFKD", clean(text)) if not unicodedata.combining(it))
    return _BETWEEN_WORDS.sub(" ", letters).casefold().strip()
