"""Where the local pages listen."""

from __future__ import annotations

import socket
import sys
from urllib.parse import urlsplit

import httpx2
import pytest

from codemode_server.web import approval_server, local_server
from codemode_server.web.metrics_site import MetricsSite


def site(_: str) -> MetricsSite:
    return MetricsSite(lambda: "codemode_up 1")


async def host_of_pages() -> str:
    async with approval_server.serving() as server:
        return str(urlsplit(server._origin).hostname)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in local_server._OF_REMOTE_SESSIONS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.release", lambda: "6.12.0")


@pytest.mark.skipif(sys.platform == "darwin", reason="has one loopback address")
@pytest.mark.page_attack
async def test_an_address_that_nobody_can_have_had_before() -> None:
    """Service workers and cookies of others are those of an address."""
    hosts = {await host_of_pages() for _ in range(5)}
    assert len(hosts) == 5
    assert all(host.startswith("127.") for host in hosts)


async def test_it_is_the_plain_one_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class PlainSocket(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            if address[0] != "127.0.0.1":
                raise OSError(49, "Can't assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", PlainSocket)
    assert await host_of_pages() == "127.0.0.1"


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "VSCODE_IPC_HOOK_CLI", "REMOTE_CONTAINERS", "CODESPACES"])
async def test_it_is_the_plain_one_if_the_browser_is_elsewhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert await host_of_pages() == "127.0.0.1"


async def test_it_is_the_plain_one_in_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.release", lambda: "5.15.153.1-microsoft-standard-WSL2")
    assert await host_of_pages() == "127.0.0.1"


async def test_a_port_that_was_chosen_is_at_the_plain_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with local_server.serving(site, port=port), httpx2.AsyncClient() as browser:
        assert (await browser.get(f"http://127.0.0.1:{port}/metrics")).text == "codemode_up 1"
