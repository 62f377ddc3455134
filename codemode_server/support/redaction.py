"""Masks configured secrets in everything that is stored, traced or returned, and replaces values by their shapes.

A secret is found as it is, and as JSON, JSON within JSON, URLs and HTML spell it.

Keys can be data too (addresses, ids, dates, paths), so a shape shows only keys that look like names of fields.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from copy import copy
from itertools import islice
from typing import Any, Literal
from urllib.parse import quote

from ahocorasick_rs import AhoCorasick

from codemode_server.domain.ids import JsonValue
from codemode_server.support.field_names import is_field_name
from codemode_server.support.json_values import joined_texts
from codemode_server.support.known_values import (
    SURROGATES,
    KnownValues,
    Span,
    merged,
    with_spans_replaced,
    with_values_replaced,
)
from codemode_server.support.text import clean, clean_line

MASK = "***"
_SEARCHED_AT_ONCE = 1024 * 1024
"""Characters; one search can return a match for each of them."""
_MAX_SPANS = 100_000
"""Maximum number of secrets in one text; with more, the whole text is masked, to bound memory."""
MAX_PAYLOAD_BYTES = 16 * 1024
"""Maximum size of one call's arguments in the audit and in traces, and of its result."""
_MAX_SHAPE_KEYS = 40
_MAX_SHAPE_DEPTH = 6
_SHAPE_BYTES = 32
"""Maximum size of the shape of one value, without its name and content."""

_REACH = 512
"""Characters beyond a cut in which the end of a known value is looked for; parts of one are found as well."""

Payloads = Literal["all", "shapes", "none"]


class Redactor:
    """Masks the secrets of the configuration. Other transformations of a secret (base64, a hash) are not found, nor is
    a part of one: mask untrusted text before you cut it. `head`, `tail` and `line` do both."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = _Search(secrets)
        self._values: KnownValues | None = None
        self._longest = self._secrets.longest

    def replacing(self, values: KnownValues) -> Redactor:
        """A redactor that also replaces these values, as they are known at the time."""
        made = copy(self)
        made._values = values
        made._longest = max(made._longest, _REACH)
        return made

    def also(self, secrets: Iterable[str]) -> Redactor:
        made = copy(self)
        made._secrets = _Search(self._secrets.secrets.union(secrets))
        made._longest = max(self._longest, made._secrets.longest)
        return made

    def text(self, text: str) -> str:
        """`text` with a mask in place of each secret; the same object if there is none."""
        spans = self._spans(text) if self._longest else None
        return with_spans_replaced(text, spans) if spans else text

    def visible(self, text: str) -> str:
        """`text` cleaned and masked, before and after cleaning: zero-width characters may hide a secret."""
        masked = self.text(text)
        cleaned = clean(masked)
        return masked if cleaned == masked else self.text(cleaned)

    def head(self, text: str, limit: int) -> str:
        """The first `limit` characters of `text`, masked, in time that does not depend on the rest."""
        if not self._longest:
            return text[:limit]
        return with_spans_replaced(text, self._spans(text[: limit + self._longest]), limit)

    def tail_bytes(self, limit: int) -> int:
        """Number of bytes at the end of a stream that `tail` needs."""
        return limit + 4 * self._longest

    def tail(self, data: bytes, limit: int, *, is_cut: bool) -> str:
        """At most the last `limit` bytes as text, masked; `is_cut`: earlier bytes were dropped from `data`. A beginning
        that may be the end of a cut secret is left out."""
        text = data.decode("utf-8", "replace")
        start = len(data[:-limit].decode("utf-8", "replace")) if len(data) > limit else 0
        start = max(start, self._longest) if is_cut else start
        spans = self._spans(text)
        start = next((end for begin, end, _ in spans if begin < start < end), start)
        shown = [(begin - start, end - start, put) for begin, end, put in spans if begin >= start]
        return with_spans_replaced(text[start:], shown)

    def line(self, text: str, limit: int) -> str:
        """`text` cleaned and masked, on one line, at most `limit` characters."""
        return clean_line(self.visible(text), limit)

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON value with the secrets in its strings masked; the same object if there are none."""
        if not self._longest or not any(map(self._spans, joined_texts(value))):
            return value
        return with_values_replaced(value, self._spans)

    def _spans(self, text: str) -> list[Span]:
        """Each secret and each known value, in order, with overlapping ones merged; all of a text with too many."""
        secrets = self._secrets.spans(text)
        known = self._values.spans(text) if self._values is not None else []
        if not secrets and not known:
            return []
        found = sorted([*((begin, end, MASK) for begin, end in secrets), *known])
        if len(found) > _MAX_SPANS:
            return [(0, len(text), MASK)]
        return merged(found, MASK)


class _Search:
    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secret for secret in secrets if secret.strip())
        spellings = sorted({_without_surrogates(text) for secret in self.secrets for text in _spellings(secret)})
        self.longest = max(map(len, spellings), default=0)
        self._automaton = AhoCorasick(spellings) if spellings else None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets are, in order; they may overlap."""
        if self._automaton is None:
            return []
        found: set[tuple[int, int]] = set()
        for start in range(0, len(text), _SEARCHED_AT_ONCE):
            part = text[start : start + _SEARCHED_AT_ONCE + self.longest]
            try:
                places = self._automaton.find_matches_as_indexes(part, overlapping=True)
            except UnicodeEncodeError:
                places = self._automaton.find_matches_as_indexes(_without_surrogates(part), overlapping=True)
            found |= {(start + begin, start + end) for _, begin, end in places}
            if len(found) > _MAX_SPANS:
                return [(0, len(text))]
        return sorted(found)


def _without_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate, which UTF-8 can't encode."""
    return SURROGATES.sub("\ufffd", text)


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as JSON, JSON within JSON, URLs and HTML spell it."""
    spelled = {secret}
    for text in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        for_html = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        once = {text, for_html, text.replace("/", "\\/")}
        spelled |= once | {json.dumps(one, ensure_ascii=False)[1:-1] for one in once}
    for safe in ("", "/", "!*'()", ";,/?:@&=+$-_.!~*'()#"):
        text = quote(secret, safe, errors="replace")
        small = re.sub("%..", lambda escape: escape[0].lower(), text)
        spelled |= {text, small, text.replace("%20", "+")}
    entities = html.escape(secret)
    spelled |= {entities, html.escape(secret, quote=False)}
    return spelled | {
        entities.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        entities.replace("&#x27;", "&apos;"),
    }


NO_SECRETS = Redactor()


def payload(value: JsonValue, keep: Payloads, redactor: Redactor) -> str | None:
    """`value` for the audit and traces: JSON text of at most `MAX_PAYLOAD_BYTES`, its shape, or nothing. JSON that is
    too long becomes `{"…": "the first 5000 of 70000 characters of JSON", "begins": "…"}`."""
    if keep == "none":
        return None
    if keep == "shapes":
        return json.dumps(redactor.value(shape(value)))
    text = redactor.text(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode())
    if len(text) <= MAX_PAYLOAD_BYTES and len(text.encode()) <= MAX_PAYLOAD_BYTES:
        return text
    # As a JSON string each character may take two more bytes, and a backslash or quotation mark two in place of one.
    begins = text[:MAX_PAYLOAD_BYTES].encode()[: MAX_PAYLOAD_BYTES // 2 - 100].decode(errors="ignore")
    about = f"the first {len(begins)} of {len(text)} characters of JSON"
    return json.dumps({"…": about, "begins": begins}, ensure_ascii=False)


def recorded_text(text: str, redactor: Redactor, limit: int) -> str:
    """`text` for the audit and traces: masked, and at most about `limit` characters."""
    masked = redactor.text(text)
    return masked if len(masked) <= limit else f"{masked[:limit]}… ({len(masked)} characters in all)"


def shape(value: JsonValue) -> Any:
    """Types, names of fields and lengths of a JSON value, without values. `{"rows": [{"id": 1}, {"id": 2}]}` has the
    shape `{"rows": ["2 x", {"id": "int"}]}`. A shape has at most `MAX_PAYLOAD_BYTES` as JSON, and only a bounded part
    of the value is read."""
    return _Shape().of(value, 0)


class _Shape:
    _left = MAX_PAYLOAD_BYTES * 3 // 4
    """Remaining bytes. The last quarter is for closing what is open when they run out."""

    def of(self, value: JsonValue, depth: int) -> Any:
        self._left -= _SHAPE_BYTES
        if isinstance(value, dict):
            if depth >= _MAX_SHAPE_DEPTH or self._left <= 0:
                return f"dict of {len(value)}"
            shown = self._fields(value, depth + 1)
            return shown if len(shown) == len(value) else shown | {"…": f"{len(value) - len(shown)} more keys"}
        if isinstance(value, list):
            if not value or depth >= _MAX_SHAPE_DEPTH or self._left <= 0:
                return f"list of {len(value)}"
            return [f"{len(value)} x", self.of(value[0], depth + 1)]
        if isinstance(value, str):
            return f"str of {len(value)}"
        return "None" if value is None else type(value).__name__

    def _fields(self, value: dict[str, JsonValue], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, item in islice(value.items(), _MAX_SHAPE_KEYS):
            if self._left <= 0:
                break
            if is_field_name(key):
                self._left -= len(json.dumps(key))
                shown[key] = self.of(item, depth)
            else:
                self._left -= _SHAPE_BYTES
        return shown
