"""Masks configured secrets in everything that is stored, traced or returned, and replaces values by their shapes.

Keys can be data too (addresses, ids, dates, paths), so a shape shows only keys that look like names of fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from codemode_server.domain.ids import JsonValue
from codemode_server.field_names import is_field_name
from codemode_server.json_texts import text_batches
from codemode_server.known_values import (
    NOTHING_FOUND,
    NOTHING_QUOTED,
    DistinctKeys,
    FoundInOrder,
    FromOutside,
    KnownValues,
    OwnLine,
    OwnText,
    Span,
    found_in,
    merged,
    with_spans_replaced,
)
from codemode_server.secret_spellings import anchor_of, head_of, is_plain, longest_spelling, pattern_of, pieces_of
from codemode_server.text import clean, clean_line

MASK = "***"
_SEARCHED_AT_ONCE = 256 * 1024
"""Characters that one regular expression searches at once, since no other thread runs meanwhile."""
_MAX_SPANS = 100_000
"""Maximum number of secrets in one text; with more, the whole text is masked, to bound memory."""
_MAX_LOOKED_AT = 20_000
"""Maximum number of values in a call's arguments that are searched for guarded secrets."""
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
    """Masks the secrets of the configuration, in every spelling that `secret_spellings` knows.

    Other transformations of a secret (base64, a hash) are not found, nor is a part of one: mask untrusted text before
    you cut it. `head`, `tail` and `line` do both.
    """

    def __init__(self, secrets: Iterable[str] = (), guarded: Iterable[str] = ()) -> None:
        """`guarded` are the secrets that no program has a reason to send."""
        self._guarded = _searched(guarded)
        self._secrets = _searched(secrets)
        self._longest = max((secret.longest for of_anchor in self._secrets.values() for secret in of_anchor), default=0)
        self._values: KnownValues | None = None

    def replacing(self, values: KnownValues) -> Redactor:
        """A redactor that also replaces these values, as they are known at the time."""
        made = copy(self)
        made._values = values
        made._longest = max(made._longest, _REACH)
        return made

    def for_own(self, own: OwnText) -> Redactor:
        """A redactor for a text of the product: it masks secrets anywhere, and replaces known values only if they come
        from elsewhere."""
        return self if self._values is None else self.replacing(FromOutside(self._values, own))

    def also(self, secrets: Iterable[str]) -> Redactor:
        """A redactor that masks these as well; no program has a reason to send them."""
        made = Redactor(secrets)
        more = made._secrets
        made._secrets = _merged(self._secrets, more)
        made._guarded = _merged(self._guarded, more)
        made._longest = max(made._longest, self._longest)
        made._values = self._values
        return made

    def text(self, text: str) -> str:
        """`text` with a mask in place of each secret; the same object if there is none."""
        spans = self._spans(text)
        return with_spans_replaced(text, spans) if spans else text

    def visible(self, text: str) -> str:
        """`text` cleaned and masked, before and after cleaning: zero-width characters may hide a secret."""
        masked = self.text(text)
        cleaned = clean(masked)
        return masked if cleaned == masked else self.text(cleaned)

    def visible_key(self, key: str) -> str:
        """As `visible`, for a key of an object: a known value may be a word that is no value there."""
        return self.visible(f"{key}:").removesuffix(":")

    def head(self, text: str, limit: int) -> str:
        """The first `limit` characters of `text`, masked, in time that does not depend on the rest."""
        return with_spans_replaced(text, self._spans(text[: limit + self._longest]), limit)

    def tail_bytes(self, limit: int) -> int:
        """How many of the last bytes of a stream are needed for `tail`."""
        return limit + 4 * self._longest

    def tail(self, data: bytes, limit: int, *, is_cut: bool) -> str:
        """At most the last `limit` bytes as text, masked; `is_cut`: earlier bytes were dropped from `data`.

        A beginning that may be the end of a cut secret is left out.
        """
        text = data.decode("utf-8", "replace")
        start = len(data[:-limit].decode("utf-8", "replace")) if len(data) > limit else 0
        start = max(start, self._longest) if is_cut else start
        spans = self._spans(text)
        start = next((end for begin, end, _ in spans if begin < start < end), start)
        shown = [(begin - start, end - start, put) for begin, end, put in spans if begin >= start]
        return with_spans_replaced(text[start:], shown)

    def line(self, text: str, limit: int) -> str:
        """`text` cleaned and masked, on one line, at most `limit` characters. In an `OwnLine` there are no known
        values."""
        said = self.for_own(NOTHING_QUOTED) if isinstance(text, OwnLine) else self
        return clean_line(said.visible(text), limit)

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON value with the secrets in its strings masked; the same object if there are none."""
        return self.text(value) if isinstance(value, str) else self.take_value([value])

    def take_value(self, box: list[JsonValue]) -> JsonValue:
        """`value` of the item of `box`, which is emptied, so that a long text can be freed before its masked copy is
        complete."""
        known = NOTHING_FOUND if self._values is None else found_in(self._values, box[0])
        if known or (self._secrets and self._may_hold(box[0])):
            return self._walked(box, FoundInOrder(known))
        return box.pop()

    def holds_guarded(self, value: JsonValue) -> bool:
        """Whether one of the first `_MAX_LOOKED_AT` values in a JSON value contains a guarded secret."""
        waiting = [value] if self._guarded else []
        for _ in range(_MAX_LOOKED_AT):
            if not waiting:
                break
            item = waiting.pop()
            if isinstance(item, dict):
                waiting += [*islice(item, _MAX_LOOKED_AT), *islice(item.values(), _MAX_LOOKED_AT)]
            elif isinstance(item, list):
                waiting += item[:_MAX_LOOKED_AT]
            elif not isinstance(item, bool | None):
                text = str(item)
                if any(next(secret.spans(text), None) is not None for secret in _likely(self._guarded, text)):
                    return True
        return False

    def _may_hold(self, value: JsonValue) -> bool:
        """Whether a string of the value may contain a secret. Joins short strings to search them together."""
        return any(self._is_in("\n".join(batch.texts)) for batch in text_batches(value))

    def _is_in(self, text: str) -> bool:
        return any(next(secret.spans(text), None) is not None for secret in _likely(self._secrets, text))

    def _walked(self, box: list[Any], known: FoundInOrder) -> JsonValue:
        value = box.pop()
        if isinstance(value, str):
            spans = self._spans(value, known.in_next())
            if not spans or len(value) <= _SEARCHED_AT_ONCE:
                return with_spans_replaced(value, spans) if spans else value
            data = _masked_bytes(value, spans)
            del value
            return data.decode("utf-8", "surrogatepass")
        if isinstance(value, dict):
            distinct = DistinctKeys(value)
            keys = [distinct.named(key, self._key(key, known)) for key in value]
            return {key: self._walked([item], known) for key, item in zip(keys, value.values(), strict=True)}
        if isinstance(value, list):
            return [self._walked([item], known) for item in value]
        if isinstance(value, bool | None):
            return value
        written = str(value)  # A secret of digits may come back as a number, a known value as a part of one.
        spans = self._spans(written, known.in_next())
        return next((put for start, end, put in spans if put != MASK or (start, end) == (0, len(written))), value)

    def _key(self, key: str, known: FoundInOrder) -> str:
        spans = self._spans(key, known.in_next_key())
        return with_spans_replaced(key, spans) if spans else key

    def _spans(self, text: str, known: Sequence[Span] | None = None) -> list[Span]:
        """Each secret and each known value, in order, with overlapping ones merged; all of a text with too many.
        `known`: where the known values are, if they were looked for."""
        places = (span for secret in _likely(self._secrets, text) for span in secret.spans(text))
        found: list[Span] = [(begin, end, MASK) for begin, end in sorted(islice(places, _MAX_SPANS + 1))]
        if known is None and self._values is not None:
            known = self._values.spans(text)
        if known:
            found = sorted((*found, *known))
        if len(found) > _MAX_SPANS:
            return [(0, len(text), MASK)]
        return merged(found, MASK)


def _searched(secrets: Iterable[str]) -> dict[str, list[_Secret]]:
    """The secrets to search for, by their anchors."""
    pieces = {piece for secret in secrets if secret.strip() for piece in pieces_of(secret)}
    found: dict[str, list[_Secret]] = {}
    for piece in sorted(pieces):
        found.setdefault(anchor_of(piece), []).append(_Secret(piece))
    return found


def _merged(one: dict[str, list[_Secret]], other: dict[str, list[_Secret]]) -> dict[str, list[_Secret]]:
    return {anchor: one.get(anchor, []) + other.get(anchor, []) for anchor in one.keys() | other.keys()}


def _likely(secrets: dict[str, list[_Secret]], text: str) -> Iterator[_Secret]:
    # `in` takes a tenth of the time of a regular expression, and most texts contain no secret.
    return (secret for anchor, of_anchor in secrets.items() if anchor in text for secret in of_anchor)


class _Secret:
    """Finds one secret in texts. Its pattern is compiled when a text first contains its head: for a long secret that is
    not ASCII it takes seconds."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._anchor = anchor_of(secret)
        """Part of every spelling of the secret."""
        before = secret.index(self._anchor)
        self._longest_before, self._longest_rest = longest_spelling(secret[:before]), longest_spelling(secret[before:])
        self.longest = longest_spelling(secret)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        if is_plain(self._secret):
            yield from ((begin, begin + len(self._secret)) for begin in _places(self._secret, text))
            return
        for start, end in self._windows(text):
            # In parts, so that other threads can run in between.
            for part in range(start, end, _SEARCHED_AT_ONCE):
                part_end = min(end, part + _SEARCHED_AT_ONCE + self.longest)
                if self._head_pattern.search(text, part, part_end):
                    for match in self._pattern.finditer(text, part, part_end):
                        yield match.span()

    def _windows(self, text: str) -> Iterator[tuple[int, int]]:
        """The parts of a text around the anchor of the secret; they do not overlap."""
        if not self._anchor:
            yield 0, len(text)
            return
        start = end = 0
        for place in _places(self._anchor, text):
            if place - self._longest_before > end:
                if end:
                    yield start, end
                start = place - self._longest_before
            end = min(place + self._longest_rest, len(text))
            start = max(start, 0)
        if end:
            yield start, end

    @cached_property
    def _head_pattern(self) -> re.Pattern[str]:
        return pattern_of(head_of(self._secret))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return pattern_of(self._secret)


def _places(searched: str, text: str) -> Iterator[int]:
    place = text.find(searched)
    while place >= 0:
        yield place
        place = text.find(searched, place + 1)


NO_SECRETS = Redactor()


def _masked_bytes(text: str, spans: Iterable[Span]) -> bytearray:
    """`with_spans_replaced`, as UTF-8, which takes a quarter of the memory if the text has an emoji."""
    data, place = bytearray(), 0
    for begin, end, put in [*spans, (len(text), len(text), "")]:
        for start in range(place, begin, _SEARCHED_AT_ONCE):
            data += text[start : min(begin, start + _SEARCHED_AT_ONCE)].encode("utf-8", "surrogatepass")
        data += put.encode()
        place = end
    return data


def payload(value: JsonValue, keep: Payloads, redactor: Redactor) -> str | None:
    """`value` for the audit and traces: JSON text of at most `MAX_PAYLOAD_BYTES`, its shape, or nothing.

    JSON that is too long becomes `{"…": "the first 5000 of 70000 characters of JSON", "begins": "…"}`.
    """
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
    """Types, names of fields and lengths of a JSON value, without values.

    `{"rows": [{"id": 1}, {"id": 2}]}` has the shape `{"rows": ["2 x", {"id": "int"}]}`. A
    shape has at most `MAX_PAYLOAD_BYTES` as JSON, and only a bounded part of the value is read.
    """
    return _Shape().of(value, 0)


class _Shape:
    """Builds one shape within its budget."""

    def __init__(self) -> None:
        self._left = MAX_PAYLOAD_BYTES * 3 // 4
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
