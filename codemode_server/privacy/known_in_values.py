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


SpansOf = Callable[[str], Sequence[Span]]
"""What is replaced in a text. Called once for each, in the order in which `FoundInOrder` has them."""


def tokenized(value: Any, found: Found, counts: Counts, *, with_numbers: bool = False) -> Any:
    """The value with tokens in place of what counts of `found`. A number is replaced if a whole value is one."""
    in_order = FoundInOrder(found)

    def in_key(text: str) -> list[Span]:
        return [it for it in in_order.in_next_key() if counts(text, it)]

    def in_other(text: str) -> list[Span]:
        return [it for it in in_order.in_next() if counts(text, it)]

    return with_tokens(value, in_key, in_other, with_numbers=with_numbers)


def with_tokens(value: Any, in_key: SpansOf, in_other: SpansOf, *, with_numbers: bool) -> Any:
    """The value with tokens in its keys and in its other texts; with `with_numbers`, also in place of whole numbers."""
    if isinstance(value, dict):
        distinct = DistinctKeys(value)
        keys = [distinct.named(key, _replaced(key, in_key(key))) for key in value]
        items = [with_tokens(item, in_key, in_other, with_numbers=with_numbers) for item in value.values()]
        return dict(zip(keys, items, strict=True))
    if isinstance(value, list):
        return [with_tokens(item, in_key, in_other, with_numbers=with_numbers) for item in value]
    if isinstance(value, str):
        return _replaced(value, in_other(value))
    if isinstance(value, bool | None):
        return value
    written = str(value)
    whole = [token for start, end, token in in_other(written) if end - start == len(written)]
    return whole[0] if whole and with_numbers else value


def _replaced(text: str, spans: Sequence[Span]) -> str:
    return with_spans_replaced(text, spans) if spans else text


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
