"""The values that the arguments of a call would send in place of tokens, and the decision about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codemode_server.calls.fitted_arguments import Forms, Path, fitted_value
from codemode_server.calls.policy.names import Spellings
from codemode_server.calls.targets import CallTarget, PromptTarget, ToolTarget
from codemode_server.domain.calls import Ask, Deny
from codemode_server.domain.privacy_tokens import KnownToken, first_of_its_kind, line_with_value
from codemode_server.features.privacy.protection import mode_of, released_to
from codemode_server.features.privacy.settings import ALL_KINDS, PrivacySettings
from codemode_server.features.privacy.values_in_text import with_values
from codemode_server.support.text import first_few

_MAX_NAMED = 5
"""Tokens that a reason names."""
_MAX_RECEIVERS = 8
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})")
_DECIMAL = re.compile(rf"{_INTEGER.pattern}\.[0-9]{{1,15}}")
_PROMPT_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}
"""All arguments of prompts are texts."""
_TOKENS = (
    "tokens such as <EMAIL_1> stand for personal data, the same one for the same value. Give them to tools as "
    "they are: one that may receive the value gets it. Show them unchanged to the user, who can look them up with "
    "`codemode-server privacy show`"
)
_IN_PROGRAMS = (
    "Programs can only compare, count and join whole tokens: have servers sort and filter by the values, and don't ask "
    "them for parts of values"
)


@dataclass(frozen=True, slots=True)
class Release:
    """The tokens in the arguments of one call, and what would be sent in their places."""

    arguments: dict[str, Any]
    """With the values."""
    known: Mapping[str, KnownToken]
    """Those of the tokens that the principal has or had."""
    never_made: Mapping[str, str] = field(default_factory=dict)
    """Texts in the form of tokens of kinds that the tool may receive, which stand for nothing → the token with the same
    letters in another case; empty if there is none."""
    obstacle: str = ""
    """Why a value can't be put in its place; then `arguments` has the tokens."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({it.kind for it in self.known.values()}))

    @property
    def forgotten(self) -> list[str]:
        return sorted(token for token, it in self.known.items() if it.original is None)


def restriction_of(settings: PrivacySettings, target: CallTarget, release: Release) -> Deny | Ask | None:
    """The restriction of a call because of the values that it would send; None if nothing does."""
    if forgotten := release.forgotten:
        shown = first_few(forgotten, _MAX_NAMED)
        return Deny(f"privacy tokens that were forgotten or have expired: {shown}; read the data again", advice="")
    if release.never_made:
        return Deny(_why_refused(release.never_made), advice="")
    released = released_to(settings, Spellings.of_server(target.server), target.spellings)
    held = {token: it for token, it in release.known.items() if released.isdisjoint((it.kind, ALL_KINDS))}
    if release.obstacle and (settings.on_release == "ask" or not held):
        return Deny(release.obstacle, advice="")
    if not held:
        return None
    first = {it.kind: token for token, it in sorted(held.items(), reverse=True)}
    kinds = ", ".join(sorted(first))
    name = f"{target.server.raw_name}/{target.raw_name}"
    if settings.on_release == "ask":
        return Ask(
            f"personal data ({kinds}) would go to {name}, and privacy.release does not name it",
            tuple(line_with_value(token, it.kind, it.original) for token, it in sorted(held.items())),
        )
    shown = first_few([*sorted(first.values()), *sorted(held.keys() - {*first.values()})], _MAX_NAMED)
    return Deny(
        f"{name} may not receive personal data of the kind {kinds}, and the arguments have {shown}; "
        "the user's configuration (`privacy.release`) names who may",
        advice="Call it without these, or ask the user.",
    )


def never_made(
    settings: PrivacySettings, target: CallTarget, named: Collection[str], found: Mapping[str, KnownToken]
) -> dict[str, str]:
    """Those of the named tokens that were never made, with the tokens of which they have the letters in another case.

    - A token counts only if tokens of its kind were made, and the tool would receive their values or its server is
      protected. Elsewhere it is plain text, as in a template for documents.
    - In another case it counts only if there is a token with these letters; otherwise it is plain text.
    - `found` are the tokens of the store among the named ones, in capital letters, and those that were the first of
      their kinds.
    """
    may_get = _kinds_for(settings, target)
    made: dict[str, str] = {}
    for token in sorted(named):
        is_respelled = token != token.upper()
        meant = token.upper() if is_respelled else first_of_its_kind(token)
        known = None if token in found else found.get(meant)
        if known is not None and not may_get.isdisjoint((known.kind, ALL_KINDS)):
            made[token] = meant if is_respelled else ""
    return made


def _kinds_for(settings: PrivacySettings, target: CallTarget) -> frozenset[str]:
    """The kinds whose values a tool may receive; all for one of a protected server."""
    server = Spellings.of_server(target.server)
    if mode_of(settings, server) != "values":
        return frozenset({ALL_KINDS})
    return frozenset(released_to(settings, server, target.spellings))


def _why_refused(never_made: Mapping[str, str]) -> str:
    if respelled := [token for token, meant in never_made.items() if meant]:
        meant = first_few(sorted({never_made[token] for token in respelled}), _MAX_NAMED)
        shown = first_few(sorted(respelled), _MAX_NAMED)
        return f"no such token: {shown}; pass tokens exactly as results show them ({meant})"
    return (
        f"the arguments have {first_few(sorted(never_made), _MAX_NAMED)}, and no such privacy token was ever made; "
        "pass tokens exactly as results show them"
    )


def explanation_of_tokens(settings: PrivacySettings) -> str:
    """What the model has to know about tokens, for the messages of a program whose results have some."""
    return f"{_TOKENS}. {_IN_PROGRAMS}. {receivers(settings)}"


def receivers(settings: PrivacySettings) -> str:
    """The tools that may receive values, so that a program is not planned around a call that is refused."""
    named = [f"{glob} ({', '.join(kinds)})" for glob, kinds in settings.release.items() if kinds]
    if len(named) > _MAX_RECEIVERS:
        named[_MAX_RECEIVERS:] = [f"{len(named) - _MAX_RECEIVERS} more"]
    is_asked = settings.on_release == "ask"
    if not named:
        return "The user is asked before a tool receives a value" if is_asked else "No tool may receive the values"
    others = "; for others the user is asked" if is_asked else " and no others"
    return f"The values may go to {', '.join(named)}{others}"


def arguments_to_send(target: CallTarget, arguments: dict[str, Any], known: Mapping[str, KnownToken]) -> dict[str, Any]:
    """The arguments with the values of these tokens, of the JSON type that the tool takes there. Where its schema
    allows both texts and numbers, or says nothing, a value is of the type that it had at first. Raises `NotPlaceable`
    if a value can't be put in its place."""
    values = {token: it.value for token, it in known.items() if it.value is not None}
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
