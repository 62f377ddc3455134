"""The pages that a running product serves, and `codemode-server ui`, which finds or serves them: real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client, StdioServerParameters

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.web import serving as served_pages
from codemode_server.web.serving import ServedPages
from tests.behaviour.product import Host, configuration
from tests.web.pages import Pages

pytestmark = pytest.mark.slow
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files and pseudo-terminals")


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[App]:
    """A product in this process that serves its pages."""
    async with App.open(load(path)) as app, anyio.create_task_group() as tasks:
        before = files(path.parent)
        tasks.start_soon(served_pages.serve, app)
        with anyio.fail_after(20):
            while files(path.parent) == before:
                await anyio.sleep(0.01)
        yield app
        tasks.cancel_scope.cancel()


def configured(folder: Path, pages: dict[str, Any] | None = None, **sections: Any) -> Path:
    return configuration(folder, {}, pages={"serve": True} if pages is None else pages, **sections)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "state" / "pages").glob("*/access.json"))


async def found(path: Path, told: list[str] | None = None) -> ServedPages | None:
    return await served_pages.found(load(path), ([] if told is None else told).append)


async def enter(served: ServedPages, browser: httpx2.AsyncClient) -> Pages:
    site = Pages(served.new_address(), browser)
    await site.enter()
    return site


class TestEntering:
    async def test_opens_the_pages_of_the_product(self, tmp_path: Path) -> None:
        path = configured(tmp_path)
        async with serving(path), httpx2.AsyncClient() as browser:
            served = await found(path)
            assert served is not None
            site = await enter(served, browser)
            assert "No executions are recorded yet." in await site.text("executions")
        assert await found(path) is None, "it has ended"
        assert files(tmp_path) == []

    @pytest.mark.page_attack
    async def test_an_address_that_was_used_admits_nobody_and_a_new_one_does(self, tmp_path: Path) -> None:
        path = configured(tmp_path)
        async with serving(path), httpx2.AsyncClient() as browser, httpx2.AsyncClient() as thief:
            served = await found(path)
            assert served is not None
            address = served.new_address()
            assert await served.is_open(address)
            site = Pages(address, browser)
            await site.enter()
            assert not await served.is_open(address)
            again = await thief.get(address)
            assert again.status_code == 403
            assert "set-cookie" not in again.headers
            assert (await thief.get(f"{site.base}/executions")).status_code == 403
            other = await enter(served, thief)
            assert "Executions" in await other.text("executions"), "control"
            assert "Executions" in await site.text("executions"), "the first browser stays"


class TestFinding:
    @posix
    @pytest.mark.page_attack
    async def test_the_file_is_private_and_no_address(self, tmp_path: Path) -> None:
        path = configured(tmp_path)
        async with serving(path):
            (file,) = files(tmp_path)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
            access = json.loads(file.read_text())
            async with httpx2.AsyncClient() as thief:
                refused = await thief.get(f"{access['origin']}/open/{access['key']}")
            assert refused.status_code == 403

    @posix
    @pytest.mark.page_attack
    async def test_a_file_that_others_can_read_is_not_used(self, tmp_path: Path) -> None:
        path, told = configured(tmp_path), list[str]()
        async with serving(path):
            (file,) = files(tmp_path)
            file.chmod(0o644)
            assert await found(path, told) is None
            file.chmod(0o600)
            assert await found(path) is not None, "control"
        assert len(told) == 1
        assert "can be read by others" in told[0]

    async def test_pages_of_another_configuration_or_principal_are_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = configured(tmp_path)
        other = tmp_path / "other.yaml"
        other.write_text(path.read_text())
        async with serving(path):
            assert await found(other) is None
            monkeypatch.setenv("CODEMODE_PRINCIPAL", "somebody")
            assert await found(path) is None
            monkeypatch.delenv("CODEMODE_PRINCIPAL")
            assert await found(path) is not None, "control"


@posix
class TestTheCommand:
    async def test_opens_the_pages_of_a_product_that_a_host_started(self, tmp_path: Path) -> None:
        path = configured(tmp_path)
        stderr = tmp_path / "stderr"
        command = [sys.executable, "-m", "codemode_server", "--config", str(path)]
        started = StdioServerParameters(command="sh", args=["-c", 'exec "$@" 2>"$0"', str(stderr), *command])
        async with Client(started) as client:
            host = Host(client, tmp_path)
            await host.until(lambda: bool(files(tmp_path)), 30)
            access = json.loads(files(tmp_path)[0].read_text())
            shown = await anyio.to_thread.run_sync(ui, path)
            (address,) = re.findall(r"http://127[.\d]+:\d+/open/\S+", shown)
            assert address.startswith(f"{access['origin']}/")
            assert "A running codemode-server serves the pages." in shown
            async with httpx2.AsyncClient() as browser:
                site = Pages(address, browser)
                await site.enter()
                assert "Executions" in await site.text("executions")
            answers = [await host.call("list_dir", path="/"), await host.run("1 + 1")]
        logs = "".join(it.read_text() for it in (tmp_path / "state" / "logs").iterdir())
        assert "the pages are served" in logs, "control"
        told = [logs, stderr.read_text(), *(it.text for it in answers)]
        for secret in (access["key"], address.rpartition("/")[2], "/open/", site.base.rpartition("/")[2]):
            assert not [text for text in told if secret in text]

    async def test_ends_once_the_browser_has_been_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The browser is a fake, which follows the link in the file that it is started with."""
        path, browser, seen = configured(tmp_path), tmp_path / "browser", tmp_path / "seen"
        browser.write_text(
            f"#!{sys.executable}\n"
            "import re, sys, urllib.request\n"
            "page = urllib.request.urlopen(sys.argv[1]).read().decode()\n"
            "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
            'shown = opener.open(re.search(\'href="([^"]+)"\', page)[1]).read().decode()\n'
            f"open({str(seen)!r}, 'w').write(sys.argv[1] + ' ' + shown)\n"
        )
        browser.chmod(0o700)
        monkeypatch.setenv("BROWSER", f"{browser} %s")
        async with serving(path):
            with anyio.fail_after(60):
                shown = await anyio.to_thread.run_sync(partial(ui, path, options=()))
        assert "A running codemode-server serves the pages." in shown
        file, _, page = seen.read_text().partition(" ")
        assert "Open the pages" in page, "it was admitted"
        assert not await anyio.Path(file.removeprefix("file://")).exists()
        assert "/open/" not in file, "the command line of the browser has no address"


def ui(path: Path, options: Sequence[str] = ("--no-browser",)) -> str:
    """What `codemode-server ui` shows at a terminal, until it ends or serves pages itself."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "codemode_server", "ui", *options, "--config", str(path)]
        os.execv(sys.executable, command)
    text = ""
    try:
        while "Ctrl+C" not in text and (data := os.read(terminal, 1_000)):
            text += data.decode()
    except OSError:  # Linux says so once the command has ended
        pass
    if "Ctrl+C" in text:
        os.kill(pid, signal.SIGINT)
    os.waitpid(pid, 0)
    os.close(terminal)
    return text


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_address_is_shown_at_the_terminal_and_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    import pty

    path = configuration(tmp_path, {})
    output = tmp_path / "output"
    pid, terminal = pty.fork()
    if pid == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        command = [sys.executable, "-m", "codemode_server", "ui", "--no-browser", "--config", str(path)]
        os.execv(sys.executable, command)
    text = ""
    while "Ctrl+C" not in text:
        text += os.read(terminal, 1_000).decode()
    (address,) = re.findall(r"http://127[.\d]+:\d+/open/\S+", text)
    with httpx2.Client() as browser:
        entered = browser.get(address)
        (page,) = re.findall(r'href="(/s/[^"]+/executions)"', entered.text)
        assert "No executions are recorded yet." in browser.get(address.partition("/open/")[0] + page).text
        os.kill(pid, signal.SIGINT)
        _, status = os.waitpid(pid, 0)
        with pytest.raises(httpx2.ConnectError):
            browser.get(address)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert output.read_text() == "", "what captures the output gets no address"
