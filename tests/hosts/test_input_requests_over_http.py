"""Two hosts over HTTP on one product and one upstream: what the upstream asks during a call reaches the host that made
the call, never the other. The product is a process, the clients are real.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.behaviour.product import Host, configuration
from tests.behaviour.test_input_requests import ASK_CITY, ask, asking
from tests.hosts.kit import HttpHost, Mode, Served, http_host, serving

pytestmark = pytest.mark.slow
EACH_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])


@dataclass
class Person:
    """One host's user: knows a city, and waits for `may_answer` before telling it."""

    city: str
    is_asked: anyio.Event = field(default_factory=anyio.Event)
    may_answer: anyio.Event = field(default_factory=anyio.Event)
    times_asked: int = 0

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.times_asked += 1
        self.is_asked.set()
        await self.may_answer.wait()
        return types.ElicitResult(action="accept", content={"city": self.city})


def connected(served: Served, folder: Path, mode: Mode, person: Person) -> AbstractAsyncContextManager[HttpHost]:
    return http_host(served, folder, mode, callbacks={"elicitation_callback": person.elicit})


def accepted(city: str) -> list[dict[str, Any]]:
    return [{"action": "accept", "content": {"city": city}}]


@EACH_ERA
async def test_each_host_is_asked_for_its_own_call_also_at_the_same_time(tmp_path: Path, mode: Mode) -> None:
    """Both calls wait for their users at once, and the second user answers first."""
    ada, bob = Person("Oslo"), Person("Rome")
    values: dict[str, Any] = {}
    with serving(configuration(tmp_path, asking(tmp_path, "modern"))) as served:
        async with connected(served, tmp_path, mode, ada) as one, connected(served, tmp_path, mode, bob) as other:
            await one.settled()

            async def run(host: Host, name: str) -> None:
                values[name] = (await ask(host, ASK_CITY)).value

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, one, "ada")
                    tasks.start_soon(run, other, "bob")
                    await ada.is_asked.wait()
                    await bob.is_asked.wait()
                    bob.may_answer.set()
                    ada.may_answer.set()
    assert values == {"ada": accepted("Oslo"), "bob": accepted("Rome")}
    assert (ada.times_asked, bob.times_asked) == (1, 1)
