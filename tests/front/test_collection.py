"""Objects that stay are taken out of garbage collection once the product has started."""

from __future__ import annotations

import gc

import anyio
import pytest
from anyio.lowlevel import checkpoint

from codemode_server import serve


async def test_the_objects_of_the_start_are_exempted_once_after_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage is collected first, since it would stay otherwise."""
    done: list[str] = []

    async def sleep(seconds: float) -> None:
        done.append(f"waited {seconds:.0f} s")
        await checkpoint()

    monkeypatch.setattr(gc, "collect", lambda: done.append("collected"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("exempted"))
    service = serve._Service(serve._Start(None), None, None)
    async with anyio.create_task_group() as tasks:
        with monkeypatch.context() as patched:
            patched.setattr(anyio, "sleep", sleep)
            tasks.start_soon(service._exempt_from_collection)
            await anyio.wait_all_tasks_blocked()
            assert done == [], "nothing before the first answer"
            service._take_host(frozenset())
            service._take_host(frozenset())
            await anyio.wait_all_tasks_blocked()
    assert done == ["waited 5 s", "collected", "exempted"]
