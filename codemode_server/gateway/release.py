"""The values that the arguments of a call would send in place of tokens, and the decision about them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Decision, Deny
from codemode_server.domain.privacy_tokens import KnownToken, first_of_its_kind, line_with_value
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.protection import mode_of, released_to
from codemode_server.gateway.targets import CallTarget
from codemode_server.privacy_settings import ALL_KINDS, PrivacySettings
from codemode_server.text import first_few

_MAX_NAMED = 5
"""Tokens that a reason names."""
_MAX_SESSIONS = 1_000
"""Sessions whose model has read the explanation of tokens; one that reads it twice does nothing wrong."""
_MAX_RECEIVERS = 8
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


def values_of(known: Mapping[str, KnownToken]) -> dict[str, str | int | float]:
    """The values of tokens that were not forgotten."""
    return {token: it.value for token, it in known.items() if it.value is not None}


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


def naming_release(decision: Decision, release: Release | None) -> Decision:
    """The decision on a call that sends personal data; records are to have the kinds."""
    if release is None or not isinstance(decision, Allow):
        return decision
    return Allow(f"{decision.reason}; sends personal data ({', '.join(release.kinds)})")


def _why_refused(never_made: Mapping[str, str]) -> str:
    if respelled := [token for token, meant in never_made.items() if meant]:
        meant = first_few(sorted({never_made[token] for token in respelled}), _MAX_NAMED)
        shown = first_few(sorted(respelled), _MAX_NAMED)
        return f"no such token: {shown}; pass tokens exactly as results show them ({meant})"
    return (
        f"the arguments have {first_few(sorted(never_made), _MAX_NAMED)}, and no such privacy token was ever made; "
        "pass tokens exactly as results show them"
    )


class TokenExplanations:
    """Tells the model once in a session what tokens are, and which tools may receive which kinds."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._informed: OrderedDict[str, None] = OrderedDict()

    def add(self, calls: ExecutionCalls) -> None:
        """Add the explanation to the messages of an execution whose results have tokens."""
        session, settings = calls.context.session.session_id, self._config.settings.privacy
        if session in self._informed:
            return
        self._informed[session] = None
        if len(self._informed) > _MAX_SESSIONS:
            self._informed.popitem(last=False)
        calls.messages.append(f"{_TOKENS}. {_IN_PROGRAMS}. {receivers(settings)}")


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
