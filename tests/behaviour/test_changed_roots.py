"""A host of protocol 2025-11-25 says that its roots have changed: upstreams that have them are told, and may ask once.

The upstream is a real process that asks when it is told, and notes the answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from .person import Person
from .product import Host, configuration, in_memory
from .test_input_requests import ROOTS, ask, asking, told

CHANGED = "notifications/roots/list_changed"


class Mover(Person):
    """Has another folder each time that its host is asked."""

    async def roots(self, _context: Any) -> types.ListRootsResult:
        self.seen.append("roots/list")
        uri = f"file:///work/{len(self.seen)}"
        return types.ListRootsResult(roots=[types.Root(uri=uri)])  # type: ignore[arg-type]


def folders(*numbers: int) -> list[dict[str, Any]]:
    return [{"roots": [{"uri": f"file:///work/{number}"}]} for number in numbers]


async def change(host: Host) -> None:
    await host.client.session.send_notification(types.RootsListChangedNotification())


async def test_a_server_that_has_the_roots_is_told_and_gets_the_new_ones(tmp_path: Path) -> None:
    path = configuration(tmp_path, asking(tmp_path, "legacy"))
    async with in_memory(path, mode="legacy", **Mover().callbacks) as host:
        assert (await ask(host, ROOTS)).value == folders(1)
        await change(host)
        await host.until(lambda: told(tmp_path) == folders(1, 2))
        assert CHANGED in told(tmp_path, "notification")


@pytest.mark.parametrize("settings", [{}, {"roots": "none"}, {"roots": ["/srv"]}], ids=["never-asked", "none", "own"])
async def test_a_server_that_does_not_have_the_hosts_roots_is_not_told(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    person = Mover()
    path = configuration(tmp_path, asking(tmp_path, "legacy", **settings))
    async with in_memory(path, mode="legacy", **person.callbacks) as host:
        await ask(host, *([ROOTS] if settings else []))
        await change(host)
        await ask(host)  # the server has read all that was sent before
    assert CHANGED not in told(tmp_path, "notification")
    assert person.seen == []
