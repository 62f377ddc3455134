"""Stores the last listing of each upstream, so that tools are known before the upstreams are connected.

A very large listing is not stored and has to be fetched at each start.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.support.off_loop import run_large
from codemode_server.upstreams.cache import CachedListing

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache
    from codemode_server.storage.sealed_texts import SealedTexts

logger = logging.getLogger(__name__)

MAX_LISTING_CHARACTERS = 8 * 2**20
"""Longest listing that is stored, as JSON; the largest real server has 2 MiB."""


class ListingStore:
    """Implements `upstreams.cache.ListingCache`, and reads each listing once. One that can't be stored is fetched
    again."""

    def __init__(self, cache: Cache, texts: SealedTexts) -> None:
        self._cache = cache
        self._texts = texts
        self._read: dict[str, tuple[str, CachedListing | None]] = {}
        """Fingerprint and listing, by upstream."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        if self._read.get(name, ("",))[0] != fingerprint:
            self._read[name] = fingerprint, self._stored(name, fingerprint)
        return self._read[name][1]

    def _stored(self, name: str, fingerprint: str) -> CachedListing | None:
        key = name, fingerprint
        stored = self._cache.get([key]).get(key, b"")
        try:
            text = self._texts.opened(name, stored, _place(name, fingerprint))
        except JournalUnavailable as error:
            logger.warning("the tools of %s from last time can't be read: %s", name, error)
            return None
        return CachedListing.from_json(text) if text else None

    def _sealed(self, name: str, fingerprint: str, listing: CachedListing) -> bytes:
        text = listing.to_json()
        if len(text) <= MAX_LISTING_CHARACTERS:
            return self._texts.sealed(name, text, _place(name, fingerprint))
        most = MAX_LISTING_CHARACTERS // 2**20
        logger.warning("the tools of %s are more than %d MiB and are not stored for next time", name, most)
        return b""

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self._read[name] = fingerprint, listing
        stored = await run_large(self._sealed, name, fingerprint, listing)
        if self._read[name][1] is listing:  # no later listing has replaced it
            self._cache.put({(name, fingerprint): stored})


def _place(name: str, fingerprint: str) -> str:
    return f"listings/{name}/{fingerprint}"
