"""Puts tokens in place of findings in JSON values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN_IN_ANY_CASE
from codemode_server.json_values import texts_in
from codemode_server.known_values import DistinctKeys, merged, with_spans_replaced
from codemode_server.privacy.encodings import Wrapping, unwrapped, wrapped
from codemode_server.privacy.findings import Finding

TokensOf = Mapping[tuple[str, str], str]
"""Kind and value of a finding → its token."""
_HERE = object()
"""In a tree of findings: those of the value itself, not of what is in it."""


def replaced(value: JsonValue, found: Sequence[Finding], tokens: TokensOf) -> JsonValue:
    """The value with tokens in place of the findings; the rest of it is shared with the given one."""
    tree: dict[Any, Any] = {}
    for one in found:
        node = tree
        for step in one.place[:-1] if one.is_key else one.place:
            node = node.setdefault(step, {})
        node.setdefault(_HERE, []).append(one)
    return _replaced(value, tree, tokens)


def _replaced(value: Any, tree: dict[Any, Any], tokens: TokensOf) -> Any:
    here = tree.get(_HERE, ())
    if isinstance(value, dict) and (whole := next((one for one in here if not one.is_key), None)):
        return tokens[whole.kind, whole.value]  # a date in parts
    if isinstance(value, dict):
        keys: dict[Any, list[Finding]] = {}
        for one in here:
            keys.setdefault(one.place[-1], []).append(one)
        if not keys and tree.keys().isdisjoint(value):
            return value
        made: dict[str, Any] = {}
        distinct = DistinctKeys(value)
        for key, item in value.items():
            shown = distinct.named(key, _text(key, keys[key], tokens)) if key in keys else key
            made[shown] = _replaced(item, tree[key], tokens) if key in tree else item
        return made
    if isinstance(value, list):
        return [_replaced(item, tree[at], tokens) if at in tree else item for at, item in enumerate(value)]
    if isinstance(value, str):
        is_whole = any(one.end - one.start == len(value) for one in here)
        for wrapping in Wrapping:
            if wrapping in tree and not is_whole and (held := unwrapped(value)):
                return wrapped(wrapping, _replaced(held[1], tree[wrapping], tokens), value)
        return _text(value, here, tokens)
    return tokens[here[0].kind, here[0].value] if here else value


def _text(text: str, found: Sequence[Finding], tokens: TokensOf) -> str:
    spans = sorted((one.start, one.end, tokens[one.kind, one.value]) for one in found)
    return with_spans_replaced(text, merged(spans)) if spans else text


def tokens_in(value: JsonValue) -> set[str]:
    """The texts in the form of a token in the texts and keys of a value, as they are written, in any letter case."""
    return {found[0] for text in texts_in(value) if "<" in text for found in TOKEN_IN_ANY_CASE.finditer(text)}
