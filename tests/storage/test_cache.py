"""What can be made again, on disk: several processes add to it and none loses what another wrote, each kind is bounded,
and a database that fails costs nothing but time.

Real processes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from codemode_server.domain.tools import ToolDefinition
from codemode_server.storage.cache import LISTINGS, USES, VECTORS, Cache, Entry, Key, Kind, delete_old_rows
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.upstreams.cache import CachedListing
from codemode_server.upstreams.listing_store import ListingStore
from tests.database import change
from tests.storage.at_once import STARTS, run_at_once

KEY = ("github", "list_issues")
FEW = Kind("few", "which tools are used", 10)
DAY = 86_400.0

COUNTS = f"""
import asyncio
import sys
from pathlib import Path, PosixPath
from codemode_server.storage.cache import USES, Cache
from codemode_server.storage.database import Database, PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
place = eval(sys.argv[1])
store = Cache(Database(place), DatabaseThread(place), USES)
{STARTS}
async def count():
    for number in range(100):
        one_more = lambda known: (str(int(known[0] if known else 0) + 1).encode(), 5.0)
        assert await store.update({{("s", "shared"): one_more, ("s", sys.argv[2]): one_more}})
asyncio.run(count())
"""


@contextmanager
def cache_in(place: DatabasePlace, kind: Kind = USES) -> Iterator[Cache]:
    """As another process opens it; all is written at the end."""
    database, thread = Database(place), DatabaseThread(place)
    yield Cache(database, thread, kind)
    thread.close()
    database.close()


def numbered(numbers: range) -> dict[Key, bytes]:
    return {("s", str(number)): b"one" for number in numbers}


def used_once(at: float, _: Entry | None) -> Entry:
    return b"1", at


once = partial(used_once, 1.0)


def test_what_two_processes_add_at_once_is_all_there(place: DatabasePlace) -> None:
    Database(place).close()
    run_at_once(COUNTS, repr(place), "one", "two")
    with cache_in(place) as cache:
        assert {tool: value for (_, tool), (value, _) in cache.load().items()} == {
            "shared": b"200",
            "one": b"100",
            "two": b"100",
        }


async def test_a_change_that_breaks_leaves_everything_as_it_was(place: DatabasePlace) -> None:
    def breaks(known: Entry | None) -> Entry:
        raise ZeroDivisionError

    with cache_in(place) as cache:
        assert await cache.update({KEY: once})
        with pytest.raises(ZeroDivisionError):
            await cache.update({KEY: lambda known: (b"2", 2.0), ("github", "other"): breaks})
        assert cache.load() == {KEY: (b"1", 1.0)}
        assert await cache.update({KEY: lambda known: ((known or (b"", 0.0))[0] + b"2", 3.0)}), "the lock is free again"
        assert cache.load() == {KEY: (b"12", 3.0)}


async def test_those_that_were_not_used_for_the_longest_are_forgotten(place: DatabasePlace) -> None:
    with cache_in(place, FEW) as cache:
        for number in range(13):
            await cache.update({("s", str(number)): partial(used_once, float(number))})
        assert [tool for _, tool in cache.load()] == [str(number) for number in range(3, 13)]
        for number in range(13, 15):
            cache.put(numbered(range(number, number + 1)))
    with cache_in(place, FEW) as cache:
        assert [tool for _, tool in cache.load()] == [str(number) for number in range(5, 15)]


def test_what_was_put_is_there_in_the_next_run_for_the_same_key_and_kind_only(place: DatabasePlace) -> None:
    every = numbered(range(1_200))
    with cache_in(place, VECTORS) as cache:
        cache.put({**every, ("b\0\ud800", "x"): b"two"})
    with cache_in(place, VECTORS) as cache:
        assert cache.get([*every, ("s", "none")]) == every
        assert cache.get([("b\0\ud800", "x")]) == {("b\0\ud800", "x"): b"two"}
    with cache_in(place, USES) as cache:
        assert cache.get([*every]) == {}
        cache.forget()
    with cache_in(place, VECTORS) as cache:
        assert len(cache.load()) == 1_201, "another kind"


async def test_what_is_read_counts_as_used_and_the_rest_is_deleted_after_half_a_year(place: DatabasePlace) -> None:
    with cache_in(place) as cache:
        await cache.update({KEY: once, ("s", "other"): once})
        assert cache.get([KEY]) == {KEY: b"1"}
    with cache_in(place) as cache:
        used_at = cache.load()[KEY][1]
        assert used_at > DAY
        for most, left in ((1, 1), (10, 1)):
            with cache._database.begin() as connection:
                assert delete_old_rows(connection, 182 * DAY, most) == (most == 1)
            assert len(cache.load()) == left
        assert KEY in cache.load()


async def test_a_database_that_can_not_be_used_is_logged_once_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cache_in(tmp_path) as cache:
        change(tmp_path, "ALTER TABLE cache RENAME TO elsewhere")
        assert cache.load() == {}
        assert cache.get([KEY]) == {}
        assert await cache.update({KEY: once}) is False
        cache.forget()
    assert [it.message for it in caplog.records if "which tools are used" in it.message][1:] == []
    assert "which tools are used can't be read" in caplog.text


async def test_a_listing_is_there_in_the_next_run_and_no_word_of_it_in_the_database(
    place: DatabasePlace, tmp_path: Path
) -> None:
    """Servers name persons in them."""
    texts, listing = SealedTexts(JournalCipher(tmp_path)), CachedListing((ToolDefinition("a", "of ann@example.org"),))
    with cache_in(place, LISTINGS) as cache:
        await ListingStore(cache, texts).put("crm", "one", listing)
    with cache_in(place, LISTINGS) as cache:
        assert ListingStore(cache, texts).get("crm", "one") == listing
        assert ListingStore(cache, texts).get("crm", "two") is None
        ((value, _),) = cache.load().values()
        assert zlib.compress(listing.to_json().encode(), 1)[2:] not in value
