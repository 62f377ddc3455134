"""A change of the file, or of the `.env` beside it, is noticed however an editor saves; a mistake changes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

from codemode_server.config import LoadedSettings, load, locate
from codemode_server.config.places import ConfigFile
from codemode_server.config.watching import changes
from codemode_server.domain.errors import SettingsError

if TYPE_CHECKING:
    from tests.config.conftest import Folder

INTERVAL_S = 0.01
News = MemoryObjectReceiveStream[LoadedSettings | SettingsError]


@asynccontextmanager
async def watching(
    path: Path, since: LoadedSettings | None = None, environ: Mapping[str, str] | None = None
) -> AsyncIterator[News]:
    send, receive = anyio.create_memory_object_stream[LoadedSettings | SettingsError](100)

    async def watch() -> None:
        async for news in changes(ConfigFile(path), INTERVAL_S, since=since, environ=environ or {}):
            await send.send(news)

    with send, receive:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.sleep(INTERVAL_S)
            yield receive
            tasks.cancel_scope.cancel()


async def _next(news: News) -> LoadedSettings | SettingsError:
    with anyio.fail_after(60):
        return await news.receive()


async def _names(news: News) -> list[str]:
    told = await _next(news)
    assert isinstance(told, LoadedSettings), told
    return list(told.settings.servers)


async def _assert_silence(news: News) -> None:
    await anyio.sleep(INTERVAL_S * 20)
    assert news.statistics().current_buffer_used == 0


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def _with_command(folder: Folder) -> LoadedSettings:
    """A server whose command fails until the file `open` exists; each run is noted in `runs`."""
    command = "sh -c 'echo run >> runs; cat open'"
    text = f'servers: {{a: {{command: x, env: {{T: "${{command:{command}}}"}}}}}}'
    return load(folder.write("upstream.yaml", text), environ={"PATH": os.environ["PATH"]})


async def test_a_failed_command_is_run_again_once_the_person_saves_the_file(folder: Folder) -> None:
    loaded = _with_command(folder)
    assert list(loaded.invalid_servers) == ["a"], "control"
    folder.write("open", "sesame")
    async with watching(folder.path / "upstream.yaml", since=loaded, environ=os.environ) as news:
        await _assert_silence(news)
        (folder.path / "upstream.yaml").touch()
        assert await _names(news) == ["a"]


async def test_a_file_written_in_place_and_one_that_is_replaced_are_both_noticed(folder: Folder) -> None:
    file = folder.write("upstream.yaml", "servers: {}")
    async with watching(file) as news:
        folder.write("upstream.yaml", "servers: {written: {command: x}}")
        assert await _names(news) == ["written"]
        folder.write("new.tmp", "servers: {replaced: {command: x}}").replace(file)
        assert await _names(news) == ["replaced"]


async def test_a_mistake_is_told_once_and_the_repair_is_told_too(folder: Folder) -> None:
    file = folder.write("upstream.yaml", "servers: {a: {command: x}}")
    async with watching(file, since=load(file, environ={})) as news:
        folder.write("upstream.yaml", "servers: {a: {comand: x}}")
        told = await _next(news)
        assert isinstance(told, SettingsError)
        assert str(told).endswith("upstream.yaml:1: servers.a.comand: unknown key; did you mean 'command'?")
        folder.write("upstream.yaml", "servers: {a: {comand: x}} ")
        await _assert_silence(news)
        folder.write("upstream.yaml", "servers: {a: {command: x}}")
        assert await _names(news) == ["a"]


async def test_a_file_that_vanishes_is_one_error_and_its_return_is_noticed(folder: Folder) -> None:
    file = folder.write("upstream.yaml", "servers: {a: {command: x}}")
    async with watching(file) as news:
        file.unlink()
        told = await _next(news)
        assert isinstance(told, SettingsError)
        assert "there is no such file" in str(told)
        await _assert_silence(news)
        folder.write("upstream.yaml", "servers: {b: {command: x}}")
        assert await _names(news) == ["b"]


async def test_a_file_that_is_empty_for_a_moment_while_it_is_written_is_not_read_then(folder: Folder) -> None:
    """An empty file is a valid one, and would disconnect every server."""
    file = folder.write("upstream.yaml", "servers: {a: {command: x}}")
    async with watching(file) as news:
        for _ in range(20):
            folder.write("upstream.yaml", "")
            await anyio.sleep(INTERVAL_S / 4)
            folder.write("upstream.yaml", "servers: {b: {command: x}}")
            await anyio.sleep(INTERVAL_S / 4)
        assert await _names(news) == ["b"]
        await _assert_silence(news)


async def test_an_edit_that_shows_a_fault_of_ours_is_a_mistake_in_the_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on with its settings, and takes the next edit."""
    file = folder.write("upstream.yaml", "servers: {a: {command: x}}")
    async with watching(file, since=load(file, environ={})) as news:
        folder.write("upstream.yaml", "servers: hello")
        assert "upstream.yaml:1: servers: must be a mapping" in str(await _next(news)), "control"
        with monkeypatch.context() as patched:
            patched.setattr("codemode_server.config.loading.Reading.settings", lambda *_: [][0])
            folder.write("upstream.yaml", "servers: {b: {command: x}}")
            assert "can't be used: IndexError" in str(await _next(news))
        folder.write("upstream.yaml", "servers: {c: {command: x}}")
        assert await _names(news) == ["c"]


@pytest.mark.skipif(sys.platform == "win32", reason="there a folder in which a process works can't be removed")
async def test_an_edit_counts_after_the_folder_in_which_the_product_works_was_removed(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running server works in that of its first host, perhaps a clone, and serves the others too."""
    (clone := tmp_path / "clone").mkdir()
    file = folder.write("upstream.yaml", "permissions: {rules: []}")
    monkeypatch.chdir(clone)
    async with watching(file) as news:
        clone.rmdir()
        folder.write("upstream.yaml", "permissions: {rules: [{deny: 'a/*'}]}")
        told = await _next(news)
    assert isinstance(told, LoadedSettings), told
    assert [it.deny for it in told.settings.permissions.rules] == ["a/*"]
    assert locate(environ={}).path.is_absolute(), "a host is told which file the server reads"
