"""Results of calls leave a file only as an artifact, whatever is being written when the program ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.call_results import CallResults
from codemode_server.sandbox.contract import Reply

TEXT = "x" * 5_000_000
"""More than is held in memory."""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "kept", session_bytes=lambda: 2**26, all_bytes=lambda: 2**26)


def files(store: ArtifactStore) -> list[Path]:
    return [path for path in store.folder.rglob("*") if path.is_file() and path.name != "lock"]


async def written_while(results: CallResults, end: Callable[[], object]) -> None:
    """`end` runs once the results are on their way to the file."""
    assert results.add(1, Reply(TEXT), len(TEXT))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(results.write)
        await anyio.lowlevel.checkpoint()
        await end()  # type: ignore[misc]


async def test_results_that_are_dropped_while_they_are_written_leave_no_file(store: ArtifactStore) -> None:
    results = CallResults(store)
    await written_while(results, results.drop)
    assert files(store) == []
    assert not results.add(2, Reply(TEXT), len(TEXT)), "nothing is taken any more"


async def test_results_that_are_stored_while_they_are_written_are_all_in_the_artifact(store: ArtifactStore) -> None:
    """The control: the same moment, with another end."""
    results, session = CallResults(store), Session("s")

    async def end() -> None:
        item = await results.store_for(session, ExecutionId("x1"))
        assert item is not None
        assert item.size > len(TEXT)

    await written_while(results, end)
    assert len(files(store)) == 1
    await results.drop()
    assert len(files(store)) == 1, "the artifact is the store's"
