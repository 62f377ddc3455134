"""Results of calls leave a file only as an artifact, whatever is being written when the program ends."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.call_results import MAX_MEMORY_BYTES, CallResults
from codemode_server.gateway.results import ResultSummary, sizes_of
from codemode_server.sandbox.contract import Reply

TEXT = "x" * 5_000_000
"""More than is held in memory."""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "kept", session_bytes=lambda: 2**26, all_bytes=lambda: 2**26)


def size_of(value: Any) -> ResultSummary:
    return ResultSummary(*sizes_of(value))


def files(store: ArtifactStore) -> list[Path]:
    return [path for path in store.folder.rglob("*") if path.is_file() and path.name != "lock"]


async def written_while(results: CallResults, end: Callable[[], object]) -> None:
    """`end` runs once the results are on their way to the file."""
    assert results.add(1, Reply(TEXT), size_of(TEXT))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(results.write)
        await anyio.lowlevel.checkpoint()
        await end()  # type: ignore[misc]


async def test_results_that_are_dropped_while_they_are_written_leave_no_file(store: ArtifactStore) -> None:
    results = CallResults(store)
    await written_while(results, results.drop)
    assert files(store) == []
    assert not results.add(2, Reply(TEXT), size_of(TEXT)), "nothing is taken any more"


async def test_results_that_are_stored_while_they_are_written_are_all_in_the_artifact(store: ArtifactStore) -> None:
    """The control: the same moment, with another end."""
    results, owner = CallResults(store), Owner(Principal(PrincipalId("local")), Session("s"))

    async def end() -> None:
        item = await results.store_for(owner, ExecutionId("x1"))
        assert item is not None
        assert item.size > len(TEXT)

    await written_while(results, end)
    assert len(files(store)) == 1
    await results.drop()
    assert len(files(store)) == 1, "the artifact is the store's"


def held_until_a_write(store: ArtifactStore, make: Callable[[], Any]) -> tuple[int, int]:
    """How many results are taken until they have to be written, and the memory that they take, measured."""
    results, count = CallResults(store), 0
    size = size_of(make())
    gc.collect()
    tracemalloc.start()
    try:
        while True:
            count += 1
            if results.add(count, Reply(make()), size):
                return count, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


SMALL_VALUES: dict[str, Callable[[], Any]] = {
    "empty lists": lambda: [[] for _ in range(10_000)],
    "empty dicts": lambda: [{} for _ in range(10_000)],
    "lists in lists": lambda: [[[[0]]] for _ in range(5_000)],
    "dicts with a key": lambda: [{"a": 0} for _ in range(5_000)],
    "numbers": lambda: [number + 0.5 for number in range(10_000)],
    "short texts": lambda: [f"t{number}" for number in range(10_000)],
    "a wide text": lambda: "e" * 100_000 + "\N{GRINNING FACE}",
}


@pytest.mark.parametrize("kind", SMALL_VALUES)
def test_small_values_are_counted_with_the_memory_that_they_take(store: ArtifactStore, kind: str) -> None:
    """`[]` is two bytes of JSON and 60 of memory: by JSON alone, 4 MiB of results took 70 MB."""
    make = SMALL_VALUES[kind]
    count, memory = held_until_a_write(store, make)
    assert memory <= 2 * MAX_MEMORY_BYTES
    assert count * size_of(make()).bytes < MAX_MEMORY_BYTES or kind == "a wide text"


def test_text_takes_the_memory_of_its_json(store: ArtifactStore) -> None:
    """The control: what is compact in memory is held up to the whole bound."""
    _, memory = held_until_a_write(store, lambda: "x" * random.randint(100_000, 100_001))
    assert memory == pytest.approx(MAX_MEMORY_BYTES, rel=0.1)
