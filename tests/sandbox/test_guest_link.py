"""Where threads are real, one reads the answers while any number of others send; none sees a state of another's."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from codemode_server.sandbox.guest.link import Link

CALLS_IN_FLIGHT = 50


class Host:
    """Answers each request with its arguments, all that have come at once, and counts those that wait."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.most: dict[str, int] = {"call": 0, "other": 0}
        self._waiting = {"call": 0, "other": 0}

    def send(self, text: str) -> None:
        request = json.loads(text)
        kind = "call" if request["op"] == "call" else "other"
        self._waiting[kind] += 1
        self.most[kind] = max(self.most[kind], self._waiting[kind])
        self._requests.put(request)

    def receive(self, timeout_s: float | None) -> str:
        request = self._requests.get(timeout=timeout_s)
        self._waiting["call" if request["op"] == "call" else "other"] -= 1
        return json.dumps({"id": request["id"], "ok": True, "value": request.get("arguments")})


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_send_while_answers_arrive_each_get_their_own() -> None:
    host = Host()
    link = Link(host)
    link.begin(
        {"execution_id": "e", "limits": {"call_bytes": 1000, "calls_in_flight": CALLS_IN_FLIGHT, "value_bytes": 1000}}
    )
    each, senders = 1500, 4

    def ask(sender: int) -> list[Future[Any]]:
        calls = []
        for number in range(each):
            calls.append(link.call("shop", "buy", json.dumps([sender, number])))
            if number % 100 == 0:
                calls.append(link.request("resources", arguments=[sender, number]))
        return calls

    def take() -> None:
        for _ in range(senders * (each + each // 100)):
            link.pump(30)

    with ThreadPoolExecutor(senders + 1) as pool:
        reading = pool.submit(take)
        calls = [pool.submit(ask, sender) for sender in range(senders)]
        answers = [[call.result(30)[0] for call in asked.result(30)] for asked in calls]
        reading.result(30)
    for sender, given in enumerate(answers):
        numbers = [number for number in range(each) for _ in range(2 if number % 100 == 0 else 1)]
        assert given == [[sender, number] for number in numbers]
    assert host.most["call"] <= CALLS_IN_FLIGHT
    assert host.most["other"] <= 1
