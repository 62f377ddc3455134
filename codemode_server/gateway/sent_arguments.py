"""Puts values in place of the tokens in the arguments of a call, of the JSON type that the receiver takes there. Pure.

A value has one token whether a result had it as a text or as a number: what was seen first says nothing about the tool
that gets it. Where its schema allows both, or says nothing, the value is of the type that it had at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.gateway.fitted_arguments import Forms, Path, fitted_value
from codemode_server.gateway.release import values_of
from codemode_server.gateway.targets import CallTarget, PromptTarget, ToolTarget
from codemode_server.privacy.values_in_text import with_values

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
        schema = target.tool.input.schema
    elif isinstance(target, PromptTarget):
        schema = _PROMPT_SCHEMA
    else:
        return sent
    forms = dict(_forms_of_tokens(arguments, sent, {token: known[token].original or "" for token in values}, ()))
    fitted: dict[str, Any] = fitted_value(sent, schema, forms)
    return fitted


def _forms_of_tokens(given: Any, sent: Any, texts: Mapping[str, str], path: Path) -> Iterator[tuple[Path, Forms]]:
    """The forms of the values that stand in `sent` where `given` has a token alone; `texts` by token."""
    if isinstance(given, dict):
        for (_, item), (name, made) in zip(given.items(), sent.items(), strict=True):
            yield from _forms_of_tokens(item, made, texts, (*path, name))
    elif isinstance(given, list):
        for at, (item, made) in enumerate(zip(given, sent, strict=True)):
            yield from _forms_of_tokens(item, made, texts, (*path, at))
    elif isinstance(given, str) and given in texts:
        text = texts[given]
        is_number = _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)
        number = {"number": int(text) if _INTEGER.fullmatch(text) else float(text)} if is_number else {}
        yield path, {"string": text, **(number if isinstance(sent, str) else {})}
