"""Puts tokens in place of known values in JSON values, and says which of them count in the result of a tool. Pure.

What leaves for the model has tokens in place of known values in any form. A program works with the result, so there
only whole names count that are written as they were, since a token becomes its value again where a tool receives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.known_values import DistinctKeys, Found, FoundInOrder, Span, with_spans_replaced
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.given_names import is_given_name, is_person
from codemode_server.privacy.normal_forms import spelling

Counts = Callable[[str, Span], bool]
"""Whether a known value counts that was found in a text."""


def tokenized(value: Any, found: Found, counts: Counts, *, with_numbers: bool = False) -> Any:
    """The value with tokens in place of what counts of `found`. A number is replaced if a whole value is one."""
    return _Walk(FoundInOrder(found), counts, with_numbers).tokenized(value)


class _Walk:
    def __init__(self, found: FoundInOrder, counts: Counts, with_numbers: bool) -> None:
        self._found = found
        self._counts = counts
        self._with_numbers = with_numbers

    def tokenized(self, value: Any) -> Any:
        if isinstance(value, dict):
            distinct = DistinctKeys(value)
            keys = [distinct.named(key, self._text(key, self._found.in_next_key())) for key in value]
            return {key: self.tokenized(item) for key, item in zip(keys, value.values(), strict=True)}
        if isinstance(value, list):
            return [self.tokenized(item) for item in value]
        if isinstance(value, str):
            return self._text(value, self._found.in_next())
        if isinstance(value, bool | None) or not (spans := self._found.in_next()) or not self._with_numbers:
            return value
        written = str(value)
        whole = (it for it in spans if it[1] - it[0] == len(written) and self._counts(written, it))
        return next((token for _, _, token in whole), value)

    def _text(self, text: str, spans: Sequence[Span]) -> str:
        counting = [it for it in spans if self._counts(text, it)]
        return with_spans_replaced(text, counting) if counting else text


def is_known_in_result(known: KnownToken, text: str, span: Span, server: str) -> bool:
    """Whether a known value that was found in a text of a result is replaced there: a name that begins with a given
    name or was in a result of the same server first, between words, with any case. A single word such as `Mark` is one
    only as a whole value, as it was written.

    A server can call any text a name or a password. So nothing else counts: the results of other servers would be
    others for programs.
    """
    start, end, _ = span
    original, there = known.original or "", text[start:end]
    if known.kind != Kind.NAME or text[start - 1 : start].isalnum() or text[end : end + 1].isalnum():
        return False
    if len(original.split()) == 1:
        return there == original and len(there) == len(text) and is_given_name(original)
    return spelling(there) == spelling(original) and (known.server == server or is_person(original))
