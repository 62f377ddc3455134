"""The privacy tokens of all principals, as one product knows them: from values to tokens and back.

The store has the last word: it gives the numbers, so that two products never give one token to two values, and a token
is looked up there before its value goes anywhere, so that what the person has forgotten is gone at once. What is in
memory serves to find known values in texts.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Collection, Sequence, Set
from typing import TYPE_CHECKING

import anyio

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import KnownToken, PersonalValue
from codemode_server.features.privacy.findings import REGIONS, Finding, Kind
from codemode_server.support.known_values import KnownValues
from codemode_server.support.off_loop import run_sized

if TYPE_CHECKING:
    from codemode_server.features.privacy.known_texts import KnownTexts
    from codemode_server.features.privacy.token_store import TokenStore


_FEW = 200
"""So many values are prepared on the event loop."""


class TokenMap:
    """Used on the event loop. What asks the store raises `JournalUnavailable` if that can't be used."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self._texts: dict[PrincipalId, KnownTexts] = {}
        self._refreshing: dict[PrincipalId, anyio.Lock] = {}

    def texts_of(self, principal: PrincipalId) -> KnownTexts:
        """The values of a principal in memory; `refresh` brings them up to date."""
        from codemode_server.features.privacy.known_texts import KnownTexts  # not before something is protected

        return self._texts.setdefault(principal, KnownTexts())

    def values_of(self, principal: PrincipalId | None) -> KnownValues:
        """The known values of a principal, or of all in a text that belongs to nobody, as in a log. For any thread."""
        if principal is not None:
            return self.texts_of(principal)
        from codemode_server.features.privacy.known_texts import EveryValue

        return EveryValue(tuple(self._texts.values()))

    async def refresh(self, principal: PrincipalId) -> None:
        """Take over what other products and the command line have changed."""
        texts = self.texts_of(principal)
        async with self._refreshing.setdefault(principal, anyio.Lock()):
            changes = await self._store.changes(principal, texts.last_change)
            if changes.number < texts.last_change:  # the database is another one: it was damaged, or moved away
                del self._texts[principal]
                texts = self.texts_of(principal)
                changes = await self._store.changes(principal, 0)
            await run_sized(len(changes.tokens) > _FEW, texts.take, changes)

    async def tokens_for(
        self,
        principal: PrincipalId,
        found: Sequence[Finding],
        server: str,
    ) -> dict[tuple[str, str], str]:
        """The tokens of findings, by kind and value. `server` is the one whose result has them. Raises `TokensFull` if
        the server may not get so many."""
        numbers = frozenset((one.kind, one.value) for one in found if one.is_number)
        different = dict.fromkeys((one.kind, one.value) for one in found)
        values = await run_sized(len(different) > _FEW, _personal_values, [*different], numbers)
        tokens = await self._store.tokens_for(principal, values, server)
        await self.refresh(principal)
        return dict(zip(different, tokens, strict=True))

    async def find(self, principal: PrincipalId, tokens: Collection[str]) -> dict[str, KnownToken]:
        """Those of these tokens that the principal has or had, as the store has them now."""
        return {one.token: one for one in await self._store.find(principal, tokens)} if tokens else {}


def _personal_values(found: Sequence[tuple[str, str]], numbers: Set[tuple[str, str]]) -> list[PersonalValue]:
    return [PersonalValue(kind, normal_form(kind, value), value, (kind, value) in numbers) for kind, value in found]


_SEPARATORS = re.compile(r"[\s./()-]+")
_NO_DIGIT = re.compile(r"\D+")


def normal_form(kind: str, value: str) -> str:
    """`Ann@X.org` and `ann@x.org` are one address, `+49 30 901820` and `0049-30-901820` one number. Values that differ
    in a letter or digit are different: whoever gives `ann@fass.de` says nothing of `ann@faß.de`."""
    text = unicodedata.normalize("NFC", value).strip()
    match kind:
        case Kind.PHONE:
            return _phone(text)
        case Kind.CARD | Kind.IBAN | Kind.NATIONAL_ID:
            return _SEPARATORS.sub("", text).upper() if text.isascii() else text
        case Kind.IP:
            try:
                return str(ipaddress.ip_address(text))
            except ValueError:
                return text
        case Kind.EMAIL | Kind.NAME | Kind.ADDRESS:
            return " ".join(text.lower().split())
        case _:
            return text


def _phone(text: str) -> str:
    """In E.164 with the extension, where that is certain; else without separators."""
    import phonenumbers

    text = f"+{text[2:]}" if text.startswith("00") else text
    digits = _NO_DIGIT.sub("", text)
    for region in (None,) if text.startswith("+") else REGIONS:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        extension = number.extension or ""
        has_all = digits.endswith(phonenumbers.national_significant_number(number) + extension)
        if has_all and phonenumbers.is_valid_number(number):
            whole = str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
            return f"{whole};{extension}" if extension else whole
    return _SEPARATORS.sub("", text)
