"""What the arguments of a call would send in place of tokens, and whether its tool may receive that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from codemode_server.domain.calls import Allow, Ask, Decision, Deny
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN, KnownToken, first_of_its_kind, line_with_value
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.protection import mode_of, released_to
from codemode_server.gateway.targets import CallTarget, ResourceTarget
from codemode_server.gateway.withheld_kinds import why_refused, withheld_in
from codemode_server.privacy.token_map import KnownTexts
from codemode_server.privacy_settings import ALL_KINDS, PrivacySettings

_MAX_NAMED = 5
"""Tokens that a reason names."""
_FORGOTTEN = (
    "was forgotten or has expired, and stands for nothing any more; read the data again for a token that is valid",
    "were forgotten or have expired, and stand for nothing any more; read the data again for tokens that are valid",
)
"""For one token, and for several."""


@dataclass(frozen=True, slots=True)
class Release:
    """The tokens in the arguments of one call, and what would be sent in their places."""

    arguments: dict[str, Any]
    """With the values."""
    known: Mapping[str, KnownToken]
    """Those of the tokens that the principal has or had."""
    disguised: Mapping[str, str] = field(default_factory=dict)
    """Tokens of values that a program, which sees values, has rewritten: they are sent as they are → their kinds."""
    never_made: Mapping[str, str] = field(default_factory=dict)
    """What looks like tokens of kinds that the tool may receive, and stands for nothing → the token of which it has the
    letters, in another case; empty if there is none. Also what stands for data without a token."""
    obstacle: str = ""
    """Why a value can't be put in its place; then `arguments` has the tokens."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({*(it.kind for it in self.known.values()), *self.disguised.values()}))

    @property
    def forgotten(self) -> list[str]:
        return sorted(token for token, it in self.known.items() if it.original is None)


def values_of(known: Mapping[str, KnownToken]) -> dict[str, str | int | float]:
    """What tokens stand for that were not forgotten."""
    return {token: it.value for token, it in known.items() if it.value is not None}


def restriction_of(settings: PrivacySettings, target: CallTarget, release: Release) -> Deny | Ask | None:
    """What holds for a call because of the values that it would send; None if nothing does."""
    if forgotten := release.forgotten:
        return Deny(
            f"{_named(dict.fromkeys(forgotten, ''))} {_FORGOTTEN[len(forgotten) > 1]}",
            advice="",
        )
    if release.never_made:
        return Deny(_why_refused(release.never_made), advice="")
    released = released_to(settings, Spellings.of_server(target.server), target.spellings)
    is_all = ALL_KINDS in released
    held = {token: it for token, it in release.known.items() if not is_all and it.kind not in released}
    rewritten = {token: kind for token, kind in release.disguised.items() if not is_all and kind not in released}
    if release.obstacle and (settings.on_release == "ask" or not (held or rewritten)):
        return Deny(release.obstacle, advice="")
    if not held and not rewritten:
        return None
    of_kinds = {token: it.kind for token, it in held.items()} | rewritten
    kinds = ", ".join(sorted({*of_kinds.values()}))
    name = f"{target.server.raw_name}/{target.raw_name}"
    if settings.on_release == "ask":
        return Ask(
            f"personal data ({kinds}) would go to {name}, and privacy.release does not name it",
            (
                *(line_with_value(token, it.kind, it.original) for token, it in sorted(held.items())),
                *(
                    f"the program passes the value of {token} ({kind}) itself, in another form"
                    for token, kind in rewritten.items()
                ),
            ),
        )
    return Deny(
        f"{name} may not receive personal data of the kind {kinds}, and the arguments have {_named(of_kinds)}; "
        "the user's configuration (`privacy.release`) names who may",
        advice="Call it without these, or ask the user.",
    )


def never_made(
    settings: PrivacySettings, target: CallTarget, named: Collection[str], found: Mapping[str, KnownToken]
) -> dict[str, str]:
    """Those of the named tokens that were never made, although tokens of the kind were, and the tool is one that would
    receive their values or whose server is protected; with the tokens of which they have the letters in another case.
    Elsewhere they are plain text, as in a template for documents. In another case they are plain text too where there
    is no token with these letters. `found` are the tokens of the store among the named ones, in capital letters, and
    those that were the first of their kinds."""
    may_get = _kinds_for(settings, target)
    made: dict[str, str] = {}
    for token in sorted(named):
        is_respelled = token != token.upper()
        meant = token.upper() if is_respelled else first_of_its_kind(token)
        known = None if token in found else found.get(meant)
        if known is not None and not may_get.isdisjoint((known.kind, ALL_KINDS)):
            made[token] = meant if is_respelled else ""
    return made


def withheld_for(settings: PrivacySettings, target: CallTarget, arguments: JsonValue) -> dict[str, str]:
    """What the arguments have of `withheld_in`, of kinds that the tool would receive, or for a protected server; as
    `never_made` has them. Elsewhere it is plain text, as in a template for documents."""
    may_get = _kinds_for(settings, target)
    found = withheld_in(settings, arguments) if may_get else {}
    return {it: "" for it, kind in sorted(found.items()) if not may_get.isdisjoint((kind, ALL_KINDS))}


def _kinds_for(settings: PrivacySettings, target: CallTarget) -> frozenset[str]:
    """The kinds whose values a tool may receive; all for one of a protected server."""
    server = Spellings.of_server(target.server)
    if mode_of(settings, server) != "values":
        return frozenset({ALL_KINDS})
    return frozenset(released_to(settings, server, target.spellings))


def kinds_in_uri(texts: KnownTexts, target: ResourceTarget) -> dict[str, str]:
    """The tokens of known values in a URI, with their kinds, but for values that the server itself has put there."""
    if target.is_linked:
        return {}
    given = target.found.resource.definition.uri if target.found.resource is not None else ""
    of_server = texts.kinds_in(given)
    return {token: kind for token, kind in texts.kinds_in(target.found.uri).items() if token not in of_server}


def naming_release(decision: Decision, release: Release | None) -> Decision:
    """The decision on a call that sends personal data; records are to have the kinds."""
    if release is None or not isinstance(decision, Allow):
        return decision
    return Allow(f"{decision.reason}; sends personal data ({', '.join(release.kinds)})")


def _why_refused(never_made: Mapping[str, str]) -> str:
    if respelled := {token: meant for token, meant in never_made.items() if meant}:
        are, meant = ("is no token" if len(respelled) == 1 else "are no tokens"), {*respelled.values()}
        return (
            f"{_named(dict.fromkeys(respelled, ''))} {are}: pass tokens exactly as results show them "
            f"({_named(dict.fromkeys(meant, ''))})"
        )
    if withheld := [it for it in never_made if not TOKEN.fullmatch(it)]:
        return why_refused(withheld)
    return (
        f"the arguments have {_named(dict.fromkeys(never_made, ''))}, and no such privacy token was ever made; pass "
        "tokens exactly as results show them"
    )


def _named(kinds: Mapping[str, str]) -> str:
    """Some of these tokens, one of each kind first, and how many more there are."""
    first = {kind: token for token, kind in sorted(kinds.items(), reverse=True)}
    ordered = [*sorted(first.values()), *sorted(kinds.keys() - {*first.values()})]
    more = len(ordered) - _MAX_NAMED
    return ", ".join(ordered[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
