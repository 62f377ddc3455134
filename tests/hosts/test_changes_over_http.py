"""Changed lists are announced to every host over HTTP: in protocol 2025-11-25 on the stream that a host keeps open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.behaviour.product import Host, configuration
from tests.behaviour.test_changed_offers import PUT, prompts, shelf
from tests.hosts.kit import Served, serving

pytestmark = pytest.mark.slow


@dataclass
class Notified:
    messages: list[Any] = field(default_factory=list)

    async def note(self, message: Any) -> None:
        self.messages.append(message)

    def has_changed_prompts(self) -> bool:
        return any(isinstance(it, types.PromptListChangedNotification) for it in self.messages)


@asynccontextmanager
async def connected(served: Served, folder: Path, notified: Notified) -> AsyncIterator[Host]:
    async with (
        httpx2.AsyncClient(headers=served.headers, timeout=60) as http,
        Client(
            streamable_http_client(served.url, http_client=http), mode="legacy", message_handler=notified.note
        ) as client,
    ):
        host = Host(client, folder)
        await host.settled()
        yield host


async def test_both_of_two_hosts_are_told_of_changed_prompts_and_one_that_left_does_no_harm(tmp_path: Path) -> None:
    first, second, gone = Notified(), Notified(), Notified()
    with serving(configuration(tmp_path, shelf(tmp_path))) as served:
        async with connected(served, tmp_path, gone) as host:
            assert await prompts(host) == ["shelf/greet"]
        async with connected(served, tmp_path, first) as host, connected(served, tmp_path, second) as other:
            for one in (host, other):
                assert one.client.session.server_capabilities.prompts.list_changed is True  # type: ignore[union-attr]
                assert await prompts(one) == ["shelf/greet"]
            for notified in (first, second):
                notified.messages.clear()  # the first listing may have been announced as well
            await host.run(PUT)
            await host.until(lambda: first.has_changed_prompts() and second.has_changed_prompts())
            assert await prompts(other) == ["shelf/greet", "shelf/part"]
