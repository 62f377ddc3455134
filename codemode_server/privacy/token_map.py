"""The privacy tokens of all principals, as one product knows them: from values to tokens and back.

The store has the last word: it gives the numbers, so that two products never give one token to two values, and a token
is looked up there before its value goes anywhere, so that what the person has forgotten is gone at once. What is in
memory serves to find known values in texts.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence, Set
from functools import partial
from typing import Any

import anyio

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import KnownToken, PersonalValue, TokenChanges, TokenStore, whole_of
from codemode_server.known_values import Found, Span, found_in
from codemode_server.off_loop import run_sized
from codemode_server.privacy.findings import Finding
from codemode_server.privacy.known_in_values import is_known_in_result, tokenized
from codemode_server.privacy.normal_forms import normal_form, spelling
from codemode_server.privacy.own_texts import beside_own_texts, is_label

_MIN_CHARACTERS = 4
"""In a shorter text nothing is looked for."""
_FEW = 200
"""So many values are prepared on the event loop."""


class KnownTexts:
    """The known values of one principal, for `Redactor.replacing`. May be used in any thread."""

    def __init__(self) -> None:
        from codemode_server.privacy.originals import Originals  # not before something is protected

        self._guard = threading.Lock()
        self._originals = Originals()
        self._known: dict[str, KnownToken] = {}
        self._by_spelling: dict[str, str] = {}
        """Tokens by their values, without what their letter case and white space say."""
        self._last_change = 0

    @property
    def last_change(self) -> int:
        return self._last_change

    @property
    def is_empty(self) -> bool:
        """The first value takes longer than others, since the list of ordinary words is read then."""
        return not self._known

    def take(self, changes: TokenChanges) -> None:
        with self._guard:
            if changes.are_all:
                for token in self._known.keys() - {one.token for one in changes.tokens}:
                    self._forget(token)
            for one in changes.tokens:
                if one.original is None:
                    self._forget(one.token)
                elif one.token not in self._known:
                    self._known[one.token] = one
                    self._by_spelling[spelling(one.original)] = one.token
                    if not is_label(one.kind, one.original):
                        self._originals.add(one.original, one.token)
            self._last_change = changes.number

    def _forget(self, token: str) -> None:
        known = self._known.pop(token, None)
        if known is not None and known.original is not None:
            written = spelling(known.original)
            if self._by_spelling.get(written) == token:
                del self._by_spelling[written]
        self._originals.discard(token)

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and token of each known value in a text, or `part_of` the token, in order, without overlaps. Of
        values that are searched for alike, as `ann@fass.de` and `ann@faß.de` are, the token is that of the one that
        stands there. Nothing is found within tokens of the principal."""
        return beside_own_texts(text, self.all_spans(text), self.has)

    def all_spans(self, text: str) -> list[tuple[int, int, str]]:
        """As `spans`, also within tokens."""
        if not self._known or len(text) < _MIN_CHARACTERS:
            return []
        return [
            (start, end, self._by_spelling.get(spelling(text[start:end]), token))
            for start, end, token in self._originals.spans(text)
        ]

    def has(self, token: str) -> bool:
        """Whether a token stands for something."""
        return token in self._known

    def tokenized(self, value: Any) -> Any:
        """A JSON value with tokens in place of known values that stand in it as they are, numbers too."""
        found = found_in(self, value)
        return tokenized(value, found, self._is_original, with_numbers=True) if found else value

    def tokenized_result(self, value: Any, server: str) -> Any:
        """The result of a server with tokens in place of the known names that count there. Keys stay: programs ask for
        them."""
        return self.with_names(value, found_in(self, value, with_keys=False), server)

    def with_names(self, value: Any, found: Found, server: str) -> Any:
        """What `tokenized_result` gives, with what was found in the value already."""
        others = found._replace(in_keys={})
        return tokenized(value, others, partial(self._is_in_result, server)) if others else value

    def kinds_in(self, value: Any) -> dict[str, str]:
        """The tokens of the known values in the texts, keys and numbers of a JSON value, in any form, with their
        kinds."""
        return {known.token: known.kind for known in self.known_in(value)}

    def known_in(self, value: Any) -> list[KnownToken]:
        """The tokens of which `kinds_in` has the kinds."""
        return self.known_among(found_in(self, value))

    def known_among(self, found: Found) -> list[KnownToken]:
        """The tokens of what was found in a value, as a whole or in part."""
        tokens = {whole_of(put) for _, _, put in found.all}
        return [known for token in tokens if (known := self._known.get(token)) is not None]

    def have_kind(self, kind: str) -> bool:
        """Whether one of them is of this kind."""
        return any(it.kind == kind for it in tuple(self._known.values()))

    def _is_original(self, text: str, span: Span) -> bool:
        start, end, token = span
        known = self._known.get(token)
        return known is not None and known.original == text[start:end]

    def _is_in_result(self, server: str, text: str, span: Span) -> bool:
        known = self._known.get(span[2])
        return known is not None and is_known_in_result(known, text, span, server)


class TokenMap:
    """Used on the event loop."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self._texts: dict[PrincipalId, KnownTexts] = {}
        self._refreshing: dict[PrincipalId, anyio.Lock] = {}

    def texts_of(self, principal: PrincipalId) -> KnownTexts:
        """What is known of a principal in memory; `refresh` brings it up to date."""
        return self._texts.setdefault(principal, KnownTexts())

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """The known values of all principals in a text that belongs to nobody, as in a log. For any thread."""
        everyone = tuple(self._texts.values())
        found = sorted(span for texts in everyone for span in texts.all_spans(text))
        return beside_own_texts(text, found, lambda token: any(texts.has(token) for texts in everyone))

    async def refresh(self, principal: PrincipalId) -> KnownTexts:
        """Take over what other products and the command line have changed.

        Raises:
            JournalUnavailable: the store can't be used.
        """
        texts = self.texts_of(principal)
        async with self._refreshing.setdefault(principal, anyio.Lock()):
            changes = await self._store.changes(principal, texts.last_change)
            if changes.number < texts.last_change:  # the database is another one: it was damaged, or moved away
                texts = self._texts[principal] = KnownTexts()
                changes = await self._store.changes(principal, 0)
            has_much_to_do = len(changes.tokens) > _FEW or (bool(changes.tokens) and texts.is_empty)
            await run_sized(has_much_to_do, texts.take, changes)
        return texts

    async def tokens_for(
        self,
        principal: PrincipalId,
        found: Iterable[Finding],
        regions: tuple[str, ...],
        server: str,
        numbers: Set[tuple[str, str]] = frozenset(),
    ) -> dict[tuple[str, str], str]:
        """The tokens of findings, by kind and value. `server` is the one whose result has them; `numbers` are those
        that are numbers in JSON.

        Raises:
            JournalUnavailable: the store can't be used.
        """
        different = dict.fromkeys((one.kind, one.value) for one in found)
        values = await run_sized(len(different) > _FEW, _personal_values, [*different], regions, numbers)
        tokens = await self._store.tokens_for(principal, values, server)
        await self.refresh(principal)
        return dict(zip(different, tokens, strict=True))

    async def find(self, principal: PrincipalId, tokens: Collection[str]) -> dict[str, KnownToken]:
        """Those of these tokens that the principal has or had, as the store has them now.

        Raises:
            JournalUnavailable: the store can't be used.
        """
        return {one.token: one for one in await self._store.find(principal, tokens)} if tokens else {}


def _personal_values(
    found: Sequence[tuple[str, str]], regions: tuple[str, ...], numbers: Set[tuple[str, str]]
) -> list[PersonalValue]:
    return [
        PersonalValue(kind, normal_form(kind, value, regions), value, (kind, value) in numbers) for kind, value in found
    ]
