"""Keeps a program that sees tokens from testing guesses of birth dates: there are few enough to try them all.

Such a program has no date that a token stands for, unless a tool that has received it answers with it. So a date that
it writes itself is not replaced by a token: that would tell it which of all dates the token stands for.

A tool may answer with a date that it was sent, or with that of a record whatever it was sent. Nobody can tell the two
apart, so what is shown of a date may not depend on whether it was sent, nor on whether it is known: in the answer to a
call with dates that may be guesses, all birth dates and all that were sent are `<BIRTH_DATE>`. That is no token, and
tools that may receive birth dates refuse it. In the answers to other calls, birth dates have their tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN, label_of, whole_of
from codemode_server.gateway.sent_dates import SentDates
from codemode_server.known_values import Found, FoundInOrder, KnownValues, Span, found_in, merged
from codemode_server.privacy.findings import Finding, Kind
from codemode_server.privacy.known_in_values import tokenized, with_tokens
from codemode_server.privacy.token_map import KnownTexts
from codemode_server.privacy.written_dates import dates_in, is_written_date
from codemode_server.privacy_settings import ALL_KINDS, PrivacySettings

_LABEL = label_of(Kind.BIRTH_DATE)
_WITHHELD = f"<{_LABEL}>"


class WithoutBirthDates:
    """Known values but for birth dates."""

    def __init__(self, values: KnownValues) -> None:
        self._values = values

    def spans(self, text: str) -> list[Span]:
        return [one for one in self._values.spans(text) if not _is_birth_date(one[2])]


def searched_for(values: KnownValues, settings: PrivacySettings) -> KnownValues:
    """The known values that are looked for in what programs write: no birth dates, if no program can have one."""
    kinds = {kind for released in settings.release.values() for kind in released}
    may_have = settings.programs == "values" or settings.on_release == "ask" or kinds & {Kind.BIRTH_DATE, ALL_KINDS}
    return values if may_have else WithoutBirthDates(values)


def withheld_dates(found: Iterable[Finding], sent: SentDates, settings: PrivacySettings) -> dict[tuple[str, str], str]:
    """By kind and value, the birth dates in a result that get no token, each with what is put in its place."""
    dates = set() if settings.programs == "values" else {it.value for it in found if it.kind == Kind.BIRTH_DATE}
    if not dates:
        return {}
    are_all = sent.may_be_guesses
    return {(Kind.BIRTH_DATE, date): _WITHHELD for date in dates if are_all or sent.have(date)}


def without_known(known: KnownTexts, value: JsonValue, server: str, sent: SentDates) -> JsonValue:
    """What a protected server answers, as `without_known_dates` leaves it, with tokens in place of the known names that
    count there."""
    found = found_in(known, value)
    shown = _without_dates(known, value, found, sent)
    named: JsonValue = known.with_names(shown, found if shown is value else found_in(known, shown), server)
    return named


def without_known_dates(known: KnownTexts, value: JsonValue) -> JsonValue:
    """What a protected server says beside its answers, with tokens in place of the known birth dates in it, also in
    keys and in prose."""
    return _without_dates(known, value, found_in(known, value), SentDates({}))


def _without_dates(known: KnownTexts, value: JsonValue, found: Found, sent: SentDates) -> JsonValue:
    dates = {it.token for it in known.known_among(found) if it.kind == Kind.BIRTH_DATE}
    if not dates and not (known.have_kind(Kind.BIRTH_DATE) and sent.may_be_guesses):
        return value

    def is_known(text: str, span: Span) -> bool:
        # what is encoded stays: a program that has sent it encoded would see which one is known
        return span[2] in dates and is_written_date(text[span[0] : span[1]])

    if sent.may_be_guesses:
        if not (found_sent := found_in(_Sent(sent), value)) and not dates:
            return value
        in_known, in_sent = FoundInOrder(found), FoundInOrder(found_sent)

        def withheld(text: str, spans: Sequence[Span], sent_ones: Sequence[Span]) -> list[Span]:
            places = [*(it for it in spans if is_known(text, it)), *sent_ones]
            return merged((start, end, _WITHHELD) for start, end, _ in sorted(places))

        return with_tokens(
            value,
            lambda text: withheld(text, in_known.in_next_key(), in_sent.in_next_key()),
            lambda text: withheld(text, in_known.in_next(), in_sent.in_next()),
            with_numbers=True,
        )
    shown: JsonValue = tokenized(
        value,
        found,
        lambda text, span: is_known(text, span) and not sent.have(text[span[0] : span[1]]),
        with_numbers=True,
    )
    return shown


class _Sent:
    """The dates in an answer that were sent with the call, as known values."""

    def __init__(self, sent: SentDates) -> None:
        self._sent = sent

    def spans(self, text: str) -> list[Span]:
        return [(it.start, it.end, _WITHHELD) for it in dates_in(text) if self._sent.have_any(it.readings)]


def _is_birth_date(put: str) -> bool:
    token = TOKEN.fullmatch(whole_of(put))
    return token is not None and token[1] == _LABEL
