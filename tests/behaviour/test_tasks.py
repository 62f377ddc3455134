"""Tools that run as tasks, in both protocols: called like any other, followed to their results, cancelled with the
program. The product is in memory; the upstream is a real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .person import Person
from .product import Answer, Host, configuration, in_memory
from .test_input_requests import ASK_CITY, asking, both_sides, told, upstream_eras

pytestmark = pytest.mark.slow


async def work(host: Host, *requests: dict[str, Any], **more: Any) -> Answer:
    return await host.run(f"from servers.asking import work\nwork(requests={list(requests)!r}, **{more!r})")


def is_created(folder: Path, task_id: str) -> bool:
    """Whether the upstream has made the task."""
    return (folder / "asking.log").exists() and task_id in told(folder, "created")


@upstream_eras
async def test_a_task_is_followed_to_its_result(tmp_path: Path, era: str) -> None:
    async with in_memory(configuration(tmp_path, asking(tmp_path, era))) as host:
        assert (await work(host)).value == []


@both_sides
async def test_a_task_can_ask_the_user(tmp_path: Path, host_era: str, era: str) -> None:
    person = Person(content={"city": "Oslo"})
    path = configuration(tmp_path, asking(tmp_path, era))
    async with in_memory(path, mode=host_era, **person.callbacks) as host:
        assert (await work(host, ASK_CITY)).value == [{"action": "accept", "content": {"city": "Oslo"}}]
    assert [one.message.splitlines()[0] for one in person.seen] == ["The MCP server 'asking' asks: Which city?"]


@upstream_eras
async def test_an_endless_task_ends_with_the_program_and_is_cancelled_at_the_server(tmp_path: Path, era: str) -> None:
    path = configuration(tmp_path, asking(tmp_path, era), limits={"upstream_seconds": 1})
    async with in_memory(path) as host:
        answer = await work(host, is_endless=True, task_id="endless")
        assert answer.error["setting"] == "limits.upstream_seconds"
        await host.until(lambda: told(tmp_path, "cancelled") == ["endless"])
        assert (await work(host)).value == []
