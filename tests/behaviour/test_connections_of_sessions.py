"""Which sessions of one person share a server's process: all of them, those of one folder, or none.

A server that gets a relative path works in its host's folder, and one that asks for roots gets those of its own host.
The sessions are those of several hosts on one product; the servers are real processes that say where they run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.input_requests import NO_HOST_INPUT, Feature, InputRequest
from codemode_server.domain.principals import Session
from tests import fork_server

from .product import UPSTREAMS, configuration

pytestmark = pytest.mark.slow


@dataclass
class RootsHost:
    """A host that has these roots."""

    roots: list[str]
    asked: list[str] = field(default_factory=list)
    features: frozenset[Feature] = frozenset({Feature.ROOTS})

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        self.asked.append(request.method)
        return {"roots": [{"uri": uri} for uri in self.roots]}


@dataclass
class Sessions:
    """Sessions of hosts on one product."""

    app: App

    async def where(self, session: str, folder: str | Path = "", host: RootsHost | None = None) -> dict[str, Any]:
        """What the server says when a program of this session calls it."""
        caller = Caller(self.app.principal, Session(session, folder=str(folder)), self.app.config)
        code = "from servers.s import where\nwhere()"
        execution = self.app.executions.start(code, caller, host=host or NO_HOST_INPUT)
        with anyio.fail_after(60):
            await execution.done.wait()
        assert execution.outcome.error is None, execution.outcome.error
        value: dict[str, Any] = execution.outcome.value
        return value


@asynccontextmanager
async def product(
    tmp_path: Path, kind: str, folder: str, first: str | Path = "", **more: Any
) -> AsyncIterator[Sessions]:
    """A product with one server, whose first host works in the folder `first`."""
    server = fork_server.small_upstream(UPSTREAMS / "folders.py", kind, folder) | more
    async with App.open(load(configuration(tmp_path, {"s": server}))) as app:
        app.connect(frozenset({Feature.ROOTS}), str(first))
        await app.tools.wait_for_listing()
        yield Sessions(app)


@pytest.fixture
def projects(tmp_path: Path) -> tuple[Path, Path]:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    return one, two


async def test_a_server_with_a_relative_path_runs_once_in_each_folder(
    tmp_path: Path, projects: tuple[Path, Path]
) -> None:
    one, two = projects
    async with product(tmp_path, "plain", ".", first=one) as sessions:
        found = [await sessions.where(*it) for it in (("a", one), ("b", two), ("c", one))]
        assert sessions.app.pool.own_connections.counts() == {"s": 1}
    assert [it["folder"] for it in found] == [str(one), str(two), str(one)]
    assert [it["calls"] for it in found] == [1, 1, 2], "two sessions of a folder share its process"


@pytest.mark.parametrize("folder", ["", "/"])
async def test_a_session_that_works_nowhere_gets_no_folder_of_another(
    tmp_path: Path, projects: tuple[Path, Path], folder: str
) -> None:
    """Applications start their servers in the root of the disk, which no server is to get for a project."""
    for first in (folder, projects[0]):
        async with product(tmp_path, "plain", ".", first=first) as sessions:
            assert (await sessions.where("a", folder))["folder"] == str(tmp_path), "beside the configuration"
            assert (await sessions.where("b", projects[0]))["folder"] == str(projects[0])
            assert sessions.app.pool.own_connections.counts() == {"s": 1}


@pytest.mark.parametrize(
    ("argument", "more"),
    [("/", {}), ("https://x/y.z", {}), ("@scope/package", {}), ("owner/image:1.0", {}), ("Europe/Berlin", {}),
     ("there/is.txt", {}), (".", {"cwd": "."}), (".", {"share": "person"})],
)  # fmt: skip
async def test_any_other_server_runs_once_for_all(
    tmp_path: Path, projects: tuple[Path, Path], argument: str, more: dict[str, Any]
) -> None:
    """A relative path that exists beside the configuration names what is there."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/is.txt").touch()
    async with product(tmp_path, "plain", argument, first=projects[0], **more) as sessions:
        first, second = await sessions.where("a", projects[0]), await sessions.where("b", projects[1])
    assert [first["folder"], second["folder"]] == [str(tmp_path)] * 2
    assert second["calls"] == 2


async def test_the_settings_give_each_session_or_folder_a_process(tmp_path: Path, projects: tuple[Path, Path]) -> None:
    async with product(tmp_path, "plain", "/", share="session") as sessions:
        host = RootsHost(["file:///one"])
        found = [await sessions.where(*it) for it in (("a", "", host), ("b",), ("a", "", host))]
        assert [it["calls"] for it in found] == [1, 1, 2]
        assert ["roots" in it["features"] for it in found] == [True, False, True], "each is told what its host can do"
        assert sessions.app.pool.own_connections.counts() == {"s": 2}
        sessions.app.pool.own_connections.leave(Session("a"))
        assert sessions.app.pool.own_connections.counts() == {"s": 1}
        assert (await sessions.where("a"))["calls"] == 1
    async with product(tmp_path, "plain", "/", share="folder") as sessions:
        assert (await sessions.where("a", projects[0]))["folder"] == str(projects[0])


async def test_a_server_is_told_the_roots_of_its_own_host_alone(tmp_path: Path) -> None:
    """The official server for files asks as soon as it runs, and allows from then on what it was told."""
    one, two = RootsHost(["file:///one"]), RootsHost(["file:///two"])
    async with product(tmp_path, "roots", ".") as sessions:
        first = await sessions.where("a", host=one)
        second = await sessions.where("b", host=two)
        again = await sessions.where("a", host=one)
        without = await sessions.where("c")
    assert [first["roots"], second["roots"], again["roots"]] == [["file:///one"], ["file:///two"], ["file:///one"]]
    assert again["process"] == first["process"] != second["process"]
    assert not without["roots"]
    assert {it["folder"] for it in (first, second, without)} == {str(tmp_path)}
    assert (len(one.asked), len(two.asked)) == (1, 1)


@pytest.mark.parametrize("folder", [0, 1])
async def test_roots_that_a_server_asks_for_in_a_call_are_those_of_no_other_session(
    tmp_path: Path, projects: tuple[Path, Path], folder: int
) -> None:
    """On everybody's connection, and on that of one folder. Before the first call nobody knows that it asks."""
    one, other, where = RootsHost(["file:///one"]), RootsHost(["file:///other"]), projects[folder]
    async with product(tmp_path, "late", ".", first=projects[0]) as sessions:
        first = await sessions.where("a", where, host=one)
        without = await sessions.where("b", where)
        second = await sessions.where("c", where, host=other)
        again = await sessions.where("a", where, host=one)
    assert [first["roots"], without["roots"], second["roots"]] == [one.roots, [], other.roots]
    assert (again["process"], again["roots"]) == (first["process"], one.roots)
    assert len({it["process"] for it in (first, without, second)}) == 3
    assert {it["folder"] for it in (first, without, second)} == {str(where)}


async def test_configured_roots_are_told_whenever_a_server_asks(tmp_path: Path) -> None:
    async with product(tmp_path, "roots", "/", roots=[str(tmp_path)]) as sessions:
        assert (await sessions.where("a", host=RootsHost(["file:///one"])))["roots"] == [tmp_path.as_uri()]
        assert sessions.app.pool.own_connections.counts() == {}
