"""Reading a resource at an upstream: what comes of it, what fails, what is cut short; real servers of both eras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import ToolFailed, UnknownTool, UpstreamUnavailable
from codemode_server.settings import ServerSettings
from tests import fork_server
from tests.upstreams.kit import Kit

ARCHIVE = Path(__file__).parent.parent / "example_servers" / "archive.py"
BOTH_ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


def archive(log: Path, **settings: Any) -> dict[str, ServerSettings]:
    return {"a": ServerSettings(**fork_server.upstream(str(ARCHIVE), str(log)), **settings)}


@BOTH_ERAS
async def test_a_resource_comes_as_files(kit: Kit, tmp_path: Path, protocol: str) -> None:
    async with kit.pool(archive(tmp_path / "log", protocol=protocol)) as pool:
        reply = await pool.read_resource("a", "archive://letters/1")
    (file,) = reply.value
    assert (reply.encoding, file["text"], file["mime_type"]) == ("blocks", "Letter 1: all is well.", "text/plain")


@BOTH_ERAS
async def test_one_that_can_not_be_read_is_the_upstreams_error(kit: Kit, tmp_path: Path, protocol: str) -> None:
    async with kit.pool(archive(tmp_path / "log", protocol=protocol)) as pool:
        for uri in ("archive://letters/13", "archive://none", "no uri at all"):
            with pytest.raises(ToolFailed):
                await pool.read_resource("a", uri)


async def test_of_a_server_that_is_not_there_nothing_is_read(kit: Kit, tmp_path: Path) -> None:
    async with kit.pool(archive(tmp_path / "log", enabled=False)) as pool:
        with pytest.raises(UpstreamUnavailable, match="disabled"):
            await pool.read_resource("a", "archive://letters/1")
        with pytest.raises(UnknownTool):
            await pool.read_resource("b", "archive://letters/1")
