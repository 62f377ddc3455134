"""What upstreams listed last time, on SQLite, so that their tools are there before they are."""

from __future__ import annotations

import logging
import time

from codemode_server.errors import LedgerUnavailable
from codemode_server.storage.database import Database
from codemode_server.upstream.cache import CachedListing

logger = logging.getLogger(__name__)


class ListingStore:
    """Implements `upstream.cache.ListingCache`. A listing that can't be stored is logged, and fetched again next time.

    Each listing is read from the database once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[str, tuple[str, CachedListing | None]] = {}
        """By upstream, the fingerprint and its listing."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        if self._read.get(name, ("",))[0] != fingerprint:
            self._read[name] = fingerprint, self._stored(name, fingerprint)
        return self._read[name][1]

    def _stored(self, name: str, fingerprint: str) -> CachedListing | None:
        try:
            with self._database.use() as connection:
                row = connection.execute(
                    "SELECT listing FROM listings WHERE upstream = ? AND fingerprint = ?", (name, fingerprint)
                ).fetchone()
        except LedgerUnavailable as error:
            logger.warning("the tools of %s from last time can't be read: %s", name, error)
            return None
        return CachedListing.from_json(row[0]) if row else None

    def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self._read[name] = fingerprint, listing
        try:
            with self._database.use() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO listings (upstream, fingerprint, listing, stored_at) VALUES (?, ?, ?, ?)",
                    (name, fingerprint, listing.to_json(), time.time()),
                )
                connection.execute("DELETE FROM listings WHERE upstream = ? AND fingerprint != ?", (name, fingerprint))
        except LedgerUnavailable as error:
            logger.warning("the tools of %s can't be stored for next time: %s", name, error)
