"""Stores the last listing of each upstream on SQLite, so that tools are known before the upstreams are connected.

A very large listing is not stored and has to be fetched at each start.
"""

from __future__ import annotations

import logging
import time

from sqlalchemy import Connection

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.server_texts import ServerTexts
from codemode_server.support.off_loop import run_large
from codemode_server.upstreams.cache import CachedListing

logger = logging.getLogger(__name__)

MAX_LISTING_CHARACTERS = 8 * 2**20
"""Longest listing that is stored, as JSON; the largest real server has 2 MiB."""
_MAX_OF_UPSTREAM = 4
"""Configurations that use one state folder may reach an upstream of the same name in different ways."""
_DELETE_OLD = """
    DELETE FROM listings WHERE upstream = ? AND fingerprint IN
    (SELECT fingerprint FROM listings WHERE upstream = ? ORDER BY stored_at DESC, fingerprint LIMIT -1 OFFSET ?)
"""


class ListingStore:
    """Implements `upstreams.cache.ListingCache`, and reads each listing once. One that can't be stored is fetched
    again."""

    def __init__(self, database: Database, thread: DatabaseThread, texts: ServerTexts) -> None:
        self._database = database
        self._thread = thread
        self._texts = texts
        self._read: dict[str, tuple[str, CachedListing | None]] = {}
        """Fingerprint and listing, by upstream."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        if self._read.get(name, ("",))[0] != fingerprint:
            self._read[name] = fingerprint, self._stored(name, fingerprint)
        return self._read[name][1]

    def _stored(self, name: str, fingerprint: str) -> CachedListing | None:
        try:
            with self._database.begin(reads=True) as connection:
                row = connection.exec_driver_sql(
                    "SELECT listing FROM listings WHERE upstream = ? AND fingerprint = ?", (name, fingerprint)
                ).fetchone()
        except JournalUnavailable as error:
            logger.warning("the tools of %s from last time can't be read: %s", name, error)
            return None
        text = self._texts.opened(name, row[0], _place(name, fingerprint)) if row else ""
        return CachedListing.from_json(text) if text else None

    def delete_plain(self) -> None:
        """Delete what was stored without encryption of servers that are protected now."""
        self._thread.post(self._delete_plain, "lists of tools of protected servers can't be deleted")

    def _delete_plain(self, connection: Connection) -> None:
        servers = "SELECT DISTINCT upstream FROM listings"
        self._texts.change_plain(
            connection, servers, "DELETE FROM listings WHERE upstream = ? AND substr(listing, 1, 1) = ?"
        )

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
        if self._read[name][1] is not listing:
            return  # a later listing has replaced it
        row = (name, fingerprint, stored, time.time())

        def replace(connection: Connection) -> None:
            connection.exec_driver_sql(
                "DELETE FROM listings WHERE upstream = ? AND fingerprint = ?", (name, fingerprint)
            )
            if self._texts.is_protected(name):  # also what was stored before
                self._delete_plain(connection)
            if stored:
                connection.exec_driver_sql(
                    "INSERT INTO listings (upstream, fingerprint, listing, stored_at) VALUES (?, ?, ?, ?)", row
                )
            connection.exec_driver_sql(_DELETE_OLD, (name, name, _MAX_OF_UPSTREAM))

        self._thread.post(replace, f"the tools of {name} can't be stored for next time")


def _place(name: str, fingerprint: str) -> str:
    return f"listings/{name}/{fingerprint}"
