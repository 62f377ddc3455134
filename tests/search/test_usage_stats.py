"""UsageStats: a team's everyday tools come first among those that fit about as well, and nothing is hidden for it.

Real catalogs, a real index, real SQLite; the clock is the test's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import SearchSettings, Settings
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.ranking import rank
from codemode_server.search.usage_stats import MAX_BOOSTED, UsageStats
from codemode_server.search.usage_store import HALF_LIFE_SECONDS, ToolName
from codemode_server.storage.cache import USES, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from tests.database import change, rows


@dataclass
class Clock:
    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


def usage_in(folder: Path, clock: Clock | None = None) -> UsageStats:
    store = Cache(Database(folder), DatabaseThread(folder), USES)
    return UsageStats(store, now=clock or Clock())


def index_of(**servers: Sequence[tuple[str, str]]) -> tuple[Catalog, LexicalIndex]:
    catalog = Catalog.build(
        UpstreamListing(server, UpstreamState.READY, tuple(ToolDefinition(*tool) for tool in tools))
        for server, tools in servers.items()
    )
    return catalog, LexicalIndex(collections(catalog))


ISSUES = [("list_issues", "List the issues of a repository."), ("close_issue", "Close one.")]
CATALOG, INDEX = index_of(alpha=ISSUES, beta=ISSUES, weather=[("forecast", "Tomorrow's weather.")])


def found(usage: UsageStats, query: str, index: LexicalIndex = INDEX, limit: int = 10) -> list[str]:
    ranked = rank(index, None, query, None, limit, usage.usage_boost(index))
    return [f"{one.thing.server}.{one.thing.name}" for one in ranked if isinstance(one.thing, Tool)]


ME, OTHER = (Owner(Principal(PrincipalId("p")), Session(name)) for name in ("me", "other"))


def found_in(usage: UsageStats, owner: Owner, query: str) -> list[str]:
    ranked = rank(INDEX, None, query, None, 10, usage.usage_boost(INDEX, usage.servers_of(owner)))
    return [f"{one.thing.server}.{one.thing.name}" for one in ranked if isinstance(one.thing, Tool)]


def strength(usage: UsageStats, server: str, tool: str) -> float:
    boost = usage.usage_boost(INDEX)
    if boost is None:
        return 0.0
    tools = [(it.server, it.name) for it in INDEX.things if isinstance(it, Tool)]
    return float(boost[tools.index((server, tool))])


def use(usage: UsageStats, *names: str, times: int = 1) -> None:
    for _ in range(times):
        usage.used([ToolName(*name.split(".")) for name in names])


class TestOrder:
    def test_of_equals_the_one_that_is_used_comes_first(self, tmp_path: Path) -> None:
        usage = usage_in(tmp_path)
        assert found(usage, "list issues")[:2] == ["alpha.list_issues", "beta.list_issues"], "control"
        use(usage, "beta.list_issues", times=5)
        assert found(usage, "list issues")[:2] == ["beta.list_issues", "alpha.list_issues"]


class TestSession:
    def test_of_equals_the_server_that_the_session_called_comes_first_and_no_other_session_sees_it(
        self, tmp_path: Path
    ) -> None:
        usage = usage_in(tmp_path)
        usage.used([ToolName("beta", "close_issue")], ME)
        assert found_in(usage, ME, "list issues")[:2] == ["beta.list_issues", "alpha.list_issues"]
        assert found_in(usage, OTHER, "list issues")[:2] == ["alpha.list_issues", "beta.list_issues"]

    def test_a_session_that_called_nothing_searches_as_before(self, tmp_path: Path) -> None:
        usage = usage_in(tmp_path)
        assert usage.servers_of(ME) == frozenset()
        assert usage.usage_boost(INDEX, usage.servers_of(ME)) is None

    @pytest.mark.parametrize("query", ["tomorrow's weather", "alpha issues"])
    def test_a_much_better_match_of_another_server_stays_first(self, tmp_path: Path, query: str) -> None:
        usage = usage_in(tmp_path)
        before = found_in(usage, ME, query)
        usage.used([ToolName("beta", "list_issues")], ME)
        assert found_in(usage, ME, query)[0] == before[0]
        assert not before[0].startswith("beta")

    def test_turned_off_it_is_as_before(self, tmp_path: Path) -> None:
        off = LiveConfig(Settings(search=SearchSettings(habits=False)))
        usage = UsageStats(Cache(Database(tmp_path), DatabaseThread(tmp_path), USES), off)
        usage.used([ToolName("beta", "list_issues")], ME)
        assert usage.servers_of(ME) == frozenset()


WORDS = ["list", "create", "issue", "file", "message", "user", "event", "page", "of", "for", "and", "the"]
QUERIES = (
    "list issues",
    "create a file for the user",
    "create a file; list the events, then send a message to the user",
)


class TestNothingIsHidden:
    @pytest.mark.parametrize("seed", range(20))
    def test_whatever_the_prior_nothing_falls_far_and_nothing_comes_or_goes(self, seed: int) -> None:
        """What an attacker could do who may set every count at will."""
        chance = random.Random(seed)
        tools = [
            ("_".join(chance.sample(WORDS, 3)) + str(number), " ".join(chance.choices(WORDS, k=8)))
            for number in range(150)
        ]
        _, index = index_of(**{f"s{part}": tools[part * 50 : part * 50 + 50] for part in range(3)})
        boost: Scores = np.array([chance.choice((0, 0, chance.random(), 1, 2)) for _ in index.things], np.float32)
        moved = 0
        for query in QUERIES:
            without = [one.thing for one in rank(index, None, query, None, 150)]
            with_it = [one.thing for one in rank(index, None, query, None, 150, boost)]
            moved += with_it != without
            assert set(with_it) == set(without)
            assert max(with_it.index(thing) - place for place, thing in enumerate(without)) <= MAX_BOOSTED
            for limit in (1, 3, 10):
                shown = [one.thing for one in rank(index, None, query, None, limit, boost)]
                assert len(shown) == limit
                assert set(without[: max(0, limit - MAX_BOOSTED)]) <= set(shown)
        assert moved, "control: the boost does something"


class TestWhatCounts:
    def test_ten_thousand_calls_of_one_program_are_one_use(self, tmp_path: Path) -> None:
        usage = usage_in(tmp_path)
        usage.used([ToolName("alpha", "list_issues")] * 10_000)
        use(usage, "beta.list_issues")
        assert strength(usage, "alpha", "list_issues") == strength(usage, "beta", "list_issues") > 0

    def test_usage_fades(self, tmp_path: Path) -> None:
        clock = Clock()
        usage = usage_in(tmp_path, clock)
        use(usage, "alpha.list_issues", times=10)
        before = strength(usage, "alpha", "list_issues")
        clock.seconds += HALF_LIFE_SECONDS
        use(usage, "beta.list_issues", times=5)
        assert strength(usage, "alpha", "list_issues") == pytest.approx(strength(usage, "beta", "list_issues"))
        assert 0 < strength(usage, "alpha", "list_issues") < before


class TestKeeping:
    async def test_what_could_not_be_written_is_written_later(self, tmp_path: Path) -> None:
        usage = usage_in(tmp_path)
        change(tmp_path, "ALTER TABLE cache RENAME TO elsewhere")
        use(usage, "alpha.list_issues")
        assert not await usage.save()
        assert strength(usage, "alpha", "list_issues") > 0, "known meanwhile"
        change(tmp_path, "ALTER TABLE elsewhere RENAME TO cache")
        use(usage, "alpha.list_issues")
        assert await usage.save()
        assert strength(usage_in(tmp_path), "alpha", "list_issues") == strength(usage, "alpha", "list_issues")
        assert rows(tmp_path, "SELECT value FROM cache") == [(b"2.0",)]

    async def test_turned_off_nothing_is_remembered_and_what_was_is_forgotten(self, tmp_path: Path) -> None:
        on = usage_in(tmp_path)
        use(on, "alpha.list_issues", times=10)
        await on.save()
        assert strength(usage_in(tmp_path), "alpha", "list_issues") > 0, "control"
        off = LiveConfig(Settings(search=SearchSettings(habits=False)))
        thread = DatabaseThread(tmp_path)
        usage = UsageStats(Cache(Database(tmp_path), thread, USES), off)
        use(usage, "beta.list_issues", times=10)
        await usage.save()
        thread.close()
        assert usage.usage_boost(INDEX) is None
        assert usage_in(tmp_path).usage_boost(INDEX) is None
