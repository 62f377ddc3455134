"""Puts values in place of the tokens in the arguments of a call, of the JSON type that the receiver takes there. Pure.

A value has one token whether a result had it as a text or as a number: what was seen first says nothing about the tool
that gets it. Where its schema allows both, or says nothing, the value is of the type that it had at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.catalog.json_schema import Flat, SchemaReader, branches_of, kinds_of, properties_of, tuple_of
from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.gateway.release import values_of
from codemode_server.gateway.targets import CallTarget, PromptTarget, ToolTarget
from codemode_server.privacy.values_in_text import with_values

_MAX_ALTERNATIVES, _MAX_DEPTH = 50, 12
"""Beyond these, the rest of a schema allows any type."""
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})")
_DECIMAL = re.compile(rf"{_INTEGER.pattern}\.[0-9]{{1,15}}")
_PROMPT_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}
"""All arguments of prompts are texts."""


def arguments_to_send(target: CallTarget, arguments: dict[str, Any], known: Mapping[str, KnownToken]) -> dict[str, Any]:
    """The arguments with the values of these tokens.

    Raises:
        NotPlaceable: a value can't be put in its place.
    """
    values = values_of(known)
    sent: dict[str, Any] = with_values(arguments, values)
    if isinstance(target, ToolTarget):
        schema = target.tool.input_schema
    elif isinstance(target, PromptTarget):
        schema = _PROMPT_SCHEMA
    else:
        return sent
    given = {token: known[token].original or "" for token in values}
    fitted: dict[str, Any] = _fitted(arguments, sent, [schema], SchemaReader(schema), given, 0)
    return fitted


def _fitted(
    given: Any, sent: Any, schemas: list[Any], reader: SchemaReader, texts: Mapping[str, str], depth: int
) -> Any:
    """`sent`, which `given` has become, with values of the types that these schemas allow; `given` has the tokens, and
    `texts` what they stand for."""
    if depth > _MAX_DEPTH or not schemas or not isinstance(given, str | dict | list):
        return sent
    alternatives = _alternatives(schemas, reader)
    flats = [flat for flat, _ in alternatives]
    if isinstance(given, str):
        named = [kinds for flat, kinds in alternatives if kinds or not branches_of(flat)]
        kinds = frozenset[str]().union(*named) if all(named) else frozenset[str]()
        return _of_type(texts[given], sent, kinds) if given in texts else sent
    if isinstance(given, dict):
        return {
            name: _fitted(item, made, [*_members(flats, key)], reader, texts, depth + 1)
            for (key, item), (name, made) in zip(given.items(), sent.items(), strict=True)
        }
    return [
        _fitted(item, made, [*_items(flats, at)], reader, texts, depth + 1)
        for at, (item, made) in enumerate(zip(given, sent, strict=True))
    ]


def _alternatives(schemas: list[Any], reader: SchemaReader) -> list[tuple[Flat, list[str]]]:
    """These schemas and all their alternatives, each with the JSON types that it or the schema around it names, none
    where it allows any; empty, which allows anything, if they are too many."""
    found: list[tuple[Flat, list[str]]] = []
    waiting: list[tuple[Any, list[str]]] = [(it, []) for it in schemas]
    while waiting and len(found) < _MAX_ALTERNATIVES:
        schema, kinds_around = waiting.pop()
        flat = reader.flat(schema)
        kinds = kinds_of(flat) or kinds_around
        found.append((flat, kinds))
        waiting += [(it, kinds) for it in branches_of(flat)]
    return [] if waiting else found


def _of_type(text: str, sent: Any, kinds: frozenset[str]) -> Any:
    takes_text, takes_number = "string" in kinds, bool(kinds & {"number", "integer"})
    if takes_text and not takes_number:
        return text
    if takes_number and not takes_text and isinstance(sent, str):
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text) and "number" in kinds:
            return float(text)
    return sent


def _members(flats: list[Flat], key: str) -> Iterator[Any]:
    for flat in flats:
        declared, others = properties_of(flat), flat.get("additionalProperties")
        if key in declared:
            yield declared[key]
        elif isinstance(others, dict) and not flat.get("patternProperties"):
            yield others


def _items(flats: list[Flat], at: int) -> Iterator[Any]:
    for flat in flats:
        items, first = flat.get("items"), tuple_of(flat)
        if at < len(first):
            yield first[at]
        elif isinstance(items, dict):
            yield items
