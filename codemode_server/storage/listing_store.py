"""Stores the last listing of each upstream on SQLite, so that tools are known before the upstreams are connected.

A very large listing is not stored and has to be fetched at each start. Those of servers whose answers are searched for
personal data are encrypted, since they may name persons too.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.off_loop import run_large
from codemode_server.private_cipher import PrivateCipher, ValueUnreadable
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.upstreams.cache import CachedListing

logger = logging.getLogger(__name__)

MAX_LISTING_CHARACTERS = 8 * 2**20
"""Longest listing that is stored, as JSON; the largest real server has 2 MiB."""
_MAX_OF_UPSTREAM = 4
"""Configurations that use one state folder may reach an upstream of the same name in different ways. Together their
listings are not longer than one may be."""
_DELETE_OLD = """
    DELETE FROM listings WHERE upstream = ? AND fingerprint NOT IN (
        SELECT fingerprint FROM (
            SELECT fingerprint, row_number() OVER newest AS place, sum(length(listing)) OVER newest AS size
            FROM listings WHERE upstream = ? WINDOW newest AS (ORDER BY stored_at DESC, fingerprint)
        ) WHERE place = 1 OR (place <= ? AND size <= ?)
    )
"""
_DELETE_PLAIN = "DELETE FROM listings WHERE upstream = ? AND typeof(listing) = 'text'"


class ListingStore:
    """Implements `upstreams.cache.ListingCache`. A listing that can't be stored is logged, and fetched again next time.

    Each listing is read from the database once.
    """

    def __init__(
        self,
        database: Database,
        thread: DatabaseThread,
        cipher: PrivateCipher | None = None,
        is_protected: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`is_protected`: whether the listing of the upstream of this name is to be encrypted, with `cipher`."""
        self._database = database
        self._thread = thread
        self._cipher = cipher
        self.is_protected = is_protected
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
            text = self._opened(row[0], _place(name, fingerprint)) if row else ""
        except (JournalUnavailable, ValueUnreadable) as error:
            logger.warning("the tools of %s from last time can't be read: %s", name, error)
            return None
        return CachedListing.from_json(text) if text else None

    def _opened(self, stored: str | bytes, place: str) -> str:
        if isinstance(stored, str):
            return stored
        return self._cipher.decrypt(stored, place).decode("utf-8", "surrogatepass") if self._cipher else ""

    def _sealed(self, text: str, place: str) -> bytes | None:
        """None: the key can't be used."""
        if self._cipher is None:
            return None
        try:
            return self._cipher.encrypt(text.encode("utf-8", "surrogatepass"), place)
        except JournalUnavailable as error:
            logger.warning("the tools of a protected server can't be stored for next time: %s", error)
            return None

    def delete_plain(self) -> None:
        """Delete what was stored in plain text of servers that are protected now."""

        def delete(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT DISTINCT upstream FROM listings WHERE typeof(listing) = 'text'")
            for (name,) in rows.fetchall():
                if self.is_protected(name):
                    connection.execute(_DELETE_PLAIN, (name,))

        self._thread.post(delete, "lists of tools of protected servers can't be deleted")

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self._read[name] = fingerprint, listing
        text = await run_large(listing.to_json)
        is_small = len(text) <= MAX_LISTING_CHARACTERS
        stored: str | bytes | None = text if is_small else None
        is_protected = self.is_protected(name)
        if is_small and is_protected:
            stored = await run_large(partial(self._sealed, text, _place(name, fingerprint)))
        if self._read[name][1] is not listing:
            return  # a later listing has replaced it
        row = (name, fingerprint, stored, time.time())
        if not is_small and name not in self._too_large:
            self._too_large.add(name)
            most = MAX_LISTING_CHARACTERS // 2**20
            logger.warning("the tools of %s are more than %d MiB and are not stored for next time", name, most)

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM listings WHERE upstream = ? AND fingerprint = ?", (name, fingerprint))
            if is_protected:  # also what was stored before it was protected
                connection.execute(_DELETE_PLAIN, (name,))
            if stored is not None:
                connection.execute(
                    "INSERT INTO listings (upstream, fingerprint, listing, stored_at) VALUES (?, ?, ?, ?)", row
                )
            connection.execute(_DELETE_OLD, (name, name, _MAX_OF_UPSTREAM, MAX_LISTING_CHARACTERS))

        self._thread.post(replace, f"the tools of {name} can't be stored for next time")


def _place(name: str, fingerprint: str) -> str:
    return f"listings/{name}/{fingerprint}"
