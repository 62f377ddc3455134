"""Large results of an HTTP upstream go past mcp. A small one stands for each; it never reaches a program."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from codemode_server.upstreams import _large_results
from codemode_server.upstreams._large_results import LargeResults, Restored


async def through(large: LargeResults, results: list[dict[str, Any]]) -> list[Any]:
    """The messages that come of these results of mcp, with ids 0, 1, ..."""
    send, receive = anyio.create_memory_object_stream[Any](len(results))
    for number, result in enumerate(results):
        await send.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=result)))
    await send.aclose()
    async with Restored(receive, large) as restored:
        return [item.message async for item in restored]  # type: ignore[union-attr]


async def test_a_result_is_back_in_its_place_and_others_come_as_they_are() -> None:
    large = LargeResults()
    stands_for = [await large.put({"n": n}) for n in range(2)]
    messages = await through(large, [stands_for[1], {"n": "small"}, stands_for[0]])
    assert [message.result for message in messages] == [{"n": 1}, {"n": "small"}, {"n": 0}]


async def test_a_result_that_was_dropped_is_an_error_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three wait, and there is room for two: the first one is given up."""
    monkeypatch.setattr(_large_results, "_WAIT_S", 0)
    large = LargeResults()
    stands_for = [await large.put({"n": n}) for n in range(3)]
    lost, *others = await through(large, stands_for)
    assert isinstance(lost, JSONRPCError)
    assert (lost.id, lost.error.message.partition(",")[0]) == (0, "dropped")
    assert [message.result for message in others] == [{"n": 1}, {"n": 2}]
