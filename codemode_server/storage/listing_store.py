"""Stores the last listing of each upstream on SQLite, so that tools are known before the upstreams are connected.

A very large listing is not stored and has to be fetched at each start.
"""

from __future__ import annotations

import logging
import sqlite3
import time

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.off_loop import run_large
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.upstreams.cache import CachedListing

logger = logging.getLogger(__name__)

MAX_LISTING_CHARACTERS = 8 * 2**20
"""Longest listing that is stored, as JSON; the largest real server has 2 MiB."""


class ListingStore:
    """Implements `upstreams.cache.ListingCache`. A listing that can't be stored is logged, and fetched again next time.

    Each listing is read from the database once.
    """

    def __init__(self, database: Database, thread: DatabaseThread) -> None:
        self._database = database
        self._thread = thread
        self._read: dict[str, tuple[str, CachedListing | None]] = {}
        """Fingerprint and listing, by upstream."""
        self._too_large: set[str] = set()

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
        except JournalUnavailable as error:
            logger.warning("the tools of %s from last time can't be read: %s", name, error)
            return None
        return CachedListing.from_json(row[0]) if row else None

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self._read[name] = fingerprint, listing
        text = await run_large(listing.to_json)
        if self._read[name][1] is not listing:
            return  # a later listing has replaced it
        row = (name, fingerprint, text, time.time())
        is_small = len(text) <= MAX_LISTING_CHARACTERS
        if not is_small and name not in self._too_large:
            self._too_large.add(name)
            most = MAX_LISTING_CHARACTERS // 2**20
            logger.warning("the tools of %s are more than %d MiB and are not stored for next time", name, most)

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM listings WHERE upstream = ?", (name,))
            if is_small:
                connection.execute(
                    "INSERT INTO listings (upstream, fingerprint, listing, stored_at) VALUES (?, ?, ?, ?)", row
                )

        self._thread.post(replace, f"the tools of {name} can't be stored for next time", is_cache=True)
