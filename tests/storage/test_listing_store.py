"""The tools of each upstream from the last run: of each configuration that uses the state folder, on a real SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codemode_server.domain.tools import ToolDefinition
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.listing_store import ListingStore
from codemode_server.storage.server_texts import ServerTexts, TokenCipher
from codemode_server.upstreams.cache import CachedListing

Open = Callable[..., ListingStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the store as another product does, after everything that was put is written."""
    threads: list[DatabaseThread] = []
    databases: list[Database] = []

    def again(*, is_protected: bool = False) -> ListingStore:
        for thread in threads:
            thread.close()
        databases.append(Database(tmp_path))
        threads[:] = [DatabaseThread(tmp_path)]
        return ListingStore(databases[-1], threads[0], ServerTexts(TokenCipher(tmp_path), lambda _: is_protected))

    yield again
    for thread in threads:
        thread.close()
    for database in databases:
        database.close()


def listing(name: str) -> CachedListing:
    return CachedListing((ToolDefinition(name),))


async def test_the_newest_four_of_a_server_are_stored(opened: Open) -> None:
    """Configurations may reach it in different ways; a `cwd` of its own is enough."""
    for number in range(6):
        await opened().put("git", str(number), listing("a"))
    await opened().put("time", "one", listing("a"))
    store = opened()
    assert [store.get("git", str(number)) is not None for number in range(6)] == [False, False, True, True, True, True]
    assert store.get("time", "one") is not None, "another server"


async def test_no_listing_in_plain_text_is_left_of_a_server_that_is_protected_now(opened: Open) -> None:
    await opened().put("crm", "one", listing("a"))
    await opened(is_protected=True).put("crm", "two", listing("b"))
    store = opened(is_protected=True)
    assert (store.get("crm", "one"), store.get("crm", "two")) == (None, listing("b"))
