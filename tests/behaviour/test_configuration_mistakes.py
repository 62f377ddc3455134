"""Mistakes in the configuration, as the model and the person see them: one bad entry harms only itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import platformdirs
from mcp import Client, StdioServerParameters

from tests import fork_server

from .product import Host, configuration, office

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def served(folder: Path, *arguments: str) -> AsyncIterator[Host]:
    """The product as a host starts it in `folder`, by a person whose home is there too, but the compiled sandbox."""
    command, *args = fork_server.command("-m", "codemode_server", *arguments)
    env = {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "PYTHONPATH": str(ROOT)}
    env["XDG_CACHE_HOME"] = str(Path(platformdirs.user_cache_dir("x")).parent)
    async with Client(StdioServerParameters(command=command, args=args, cwd=folder, env=env)) as client:
        yield Host(client, folder)


async def test_a_file_that_can_not_be_used_is_served_as_an_empty_catalog_that_says_so_until_it_is_mended(
    tmp_path: Path,
) -> None:
    """Nothing of the file is in force, so no program runs either: what would limit it is not known."""
    path = configuration(tmp_path, office(tmp_path, "github"), permissions={"default": "dney"})
    program = "from servers.github import list_issues\nlen(list_issues(repo='r'))"
    async with served(tmp_path, "--config", str(path)) as host:
        for told in (await host.call("list_dir", path="/servers"), await host.call("search_tools", query="issues")):
            assert not told.result.is_error
            assert "No servers: the configuration of codemode-server can't be used" in told.text
            assert "permissions.default: must be one of 'allow', 'deny', 'ask'; did you mean 'deny'?" in told.text
        refused = await host.run("6 * 7")
        assert refused.result.is_error
        assert "permissions.default" in refused.text
        configuration(tmp_path, office(tmp_path, "github"))

        async def is_mended() -> bool:
            return "github" in (await host.call("list_dir", path="/servers")).text

        await host.until(is_mended)
        assert "5" in (await host.run(program)).text


async def test_without_any_configuration_the_model_is_told_what_the_person_can_do(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        listed = (await host.call("list_dir", path="/servers")).text
        assert listed.startswith("/servers · 0 servers, 0 tools\n")
        assert f"{tmp_path}/home/.config/codemode-server/upstream.yaml" in listed
        assert "no server is configured" in (await host.call("search_tools", query="issues")).text
        assert not (await host.run("6 * 7")).result.is_error
