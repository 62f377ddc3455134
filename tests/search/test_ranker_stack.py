"""The levels of the search: whatever an encoder does, a search is answered at once, by the best level that is ready.

The encoders are stand-ins that a test can hold up and break; index, vectors, ranking and threads are real.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest

from codemode_server.domain.errors import EncoderFailed, EncoderMissing
from codemode_server.domain.tools import Effect
from codemode_server.search.documents import Collection
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.vector_ranker import VectorRanker
from codemode_server.search.vectors import EncoderBusy
from tests.search.encoders import WAIT_SECONDS, Gated, tools
from tests.waiting import until

FILES = tools(files=["read_file", "write_file", "reads_folder"])
WEATHER = tools(files=["read_file", "write_file", "reads_folder"], weather=["forecast"])


@asynccontextmanager
async def kept(levels: RankerStack) -> AsyncIterator[None]:
    """The levels, being brought up in the background."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(levels.keep)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


def level(levels: RankerStack) -> str:
    return levels.rank("read a file", 1).level


def two_levels(pauses: tuple[float, ...] = (0.0, 0.0)) -> tuple[RankerStack, Gated, Gated]:
    static, semantic = Gated(), Gated()
    levels = RankerStack(
        [VectorRanker("static", static, pauses=pauses), VectorRanker("semantic", semantic, pauses=pauses)]
    )
    return levels, static, semantic


@asynccontextmanager
async def at_the_top(things: Sequence[Collection]) -> AsyncIterator[tuple[RankerStack, Gated]]:
    """The levels, once the highest answers, and its encoder."""
    levels, _, semantic = two_levels()
    levels.index(things)
    async with kept(levels):
        await until(lambda: level(levels) == "semantic")
        yield levels, semantic


def names(levels: RankerStack, query: str, **narrowed: object) -> list[str]:
    return [scored.thing.name for scored in levels.rank(query, 10, **narrowed).found]  # type: ignore[arg-type]


class TestTheLevelThatAnswers:
    async def test_is_words_until_an_encoder_is_loaded_then_the_lower_then_the_higher_one(self) -> None:
        levels, static, semantic = two_levels()
        static.may_load.clear()
        semantic.may_load.clear()
        levels.index(FILES)
        async with kept(levels):
            await until(lambda: static.loads == 1 and semantic.loads == 1)
            assert level(levels) == "lexical"
            static.may_load.set()
            await until(lambda: level(levels) == "static")
            semantic.may_load.set()
            await until(lambda: level(levels) == "semantic")
            ranking = levels.rank("read a file", 3)
            assert (ranking.level, ranking.found[0].thing.name) == ("semantic", "read_file")

    async def test_is_the_one_below_while_vectors_of_some_tools_are_missing(self) -> None:
        async with at_the_top(FILES) as (levels, semantic):
            semantic.may_encode.clear()
            levels.index(WEATHER)
            await until(lambda: level(levels) == "static")
            ranking = levels.rank("forecast", 3)
            assert (ranking.level, ranking.found[0].thing.name) == ("static", "forecast")
            semantic.may_encode.set()
            await until(lambda: level(levels) == "semantic")


class TestAChange:
    async def test_of_one_server_asks_the_encoder_for_that_server_only(self) -> None:
        async with at_the_top(FILES) as (levels, semantic):
            assert any("read file" in text for text in semantic.documents_asked)
            semantic.documents_asked.clear()
            levels.index(WEATHER)
            await until(lambda: level(levels) == "semantic")
            assert any("forecast" in text for text in semantic.documents_asked)
            assert not any("read file" in text for text in semantic.documents_asked)

    async def test_that_takes_a_server_away_leaves_the_level_as_it_is_without_a_moment_below(self) -> None:
        async with at_the_top(WEATHER) as (levels, semantic):
            semantic.may_encode.clear()
            levels.index(FILES)
            ranking = levels.rank("forecast", 3)
            assert ranking.level == "semantic"
            assert "forecast" not in [scored.thing.name for scored in ranking.found]


class TestAFailure:
    async def test_during_a_search_is_answered_by_the_level_below_and_mended_in_the_background(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with at_the_top(FILES) as (levels, semantic):
            asked = len(semantic.documents_asked)
            semantic.may_load.clear()
            semantic.query_fails = EncoderFailed("its process was killed", may_retry=True)
            ranking = levels.rank("read a file", 3)
            assert (ranking.level, ranking.found[0].thing.name) == ("static", "read_file")
            semantic.query_fails = None
            semantic.may_load.set()
            await until(lambda: level(levels) == "semantic")
            assert levels.rank("read a file", 3).level == "semantic"
            assert len(semantic.documents_asked) == asked, "no vector was computed again"
        assert caplog.messages == ["search: no semantic ranking: its process was killed; it is tried again"]

    async def test_that_comes_again_and_again_is_given_up_after_a_few_tries(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        levels, _, semantic = two_levels(pauses=(0.0, 0.0, 0.0))
        semantic.load_fails = EncoderFailed("it crashed", may_retry=True)
        levels.index(FILES)
        async with kept(levels):
            await until(lambda: levels._vector_rankers[1].is_given_up)
            assert semantic.loads == 4
            await until(lambda: level(levels) == "static")
        assert caplog.messages == [
            "search: no semantic ranking: it crashed; it is tried again",
            "search: no semantic ranking: it crashed",
        ]

    @pytest.mark.parametrize(("kind", "level"), [(EncoderMissing, "INFO"), (EncoderFailed, "WARNING")])
    async def test_is_a_warning_unless_the_model_is_merely_not_installed(
        self, kind: type[EncoderFailed], level: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        levels, _, semantic = two_levels()
        semantic.load_fails = kind("it is not here")
        levels.index(FILES)
        async with kept(levels):
            await until(lambda: levels._vector_rankers[1].is_given_up)
        assert [record.levelname for record in caplog.records] == [level]

    async def test_to_wait_for_ones_turn_leaves_the_level_in_place(self) -> None:
        levels, _, semantic = two_levels()
        semantic.may_load.clear()
        levels.index(FILES)
        async with kept(levels):
            await until(lambda: level(levels) == "static")
            semantic.may_load.set()
            await until(lambda: level(levels) == "semantic")
            semantic.query_fails = EncoderBusy()
            assert levels.rank("read a file", 3).level == "static"
            semantic.query_fails = None
            assert levels.rank("read a file", 3).level == "semantic"
            assert semantic.loads == 1


class TestTheEnd:
    @pytest.mark.parametrize("gate", ["may_load", "may_encode"])
    async def test_does_not_wait_for_an_encoder_that_takes_its_time(self, gate: str) -> None:
        levels, _, semantic = two_levels()
        getattr(semantic, gate).clear()
        levels.index(FILES)
        with anyio.fail_after(WAIT_SECONDS):
            async with kept(levels):
                await until(lambda: level(levels) == "static")
        assert level(levels) == "static"


class TestWhatIsAskedFor:
    @pytest.mark.parametrize("is_semantic", [False, True])
    async def test_narrows_by_server_and_effect(self, is_semantic: bool) -> None:
        levels, *_ = two_levels()
        levels.index(WEATHER)
        assert names(levels, "folder file forecast", within="servers/weather") == ["forecast"]
        assert names(levels, "folder file forecast", effect=Effect.READS) == ["reads_folder"]
        assert names(levels, "folder file forecast", within="servers/weather", effect=Effect.READS) == []
        assert names(levels, "folder file forecast", within="servers/none") == []
        async with kept(levels):
            await until(lambda: level(levels) == "semantic")
            assert names(levels, "folder file forecast", within="servers/weather") == ["forecast"]
            assert names(levels, "folder file forecast", effect=Effect.READS) == ["reads_folder"]


async def test_searches_in_threads_while_the_index_changes_are_all_answered() -> None:
    levels, *_ = two_levels()
    levels.index(FILES)
    found: list[str] = []

    def search() -> None:
        for _ in range(30):
            found.append(levels.rank("read a file", 3).found[0].thing.name)

    def change() -> None:
        for number in range(30):
            levels.index(WEATHER if number % 2 else FILES)

    async with kept(levels), anyio.create_task_group() as tasks:
        for work in (search, search, change):
            tasks.start_soon(anyio.to_thread.run_sync, work)
    assert found == ["read_file"] * 60
