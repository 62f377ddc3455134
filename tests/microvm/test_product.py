"""The whole product with microVMs: a real client over stdio, a real upstream, the commands beside it."""

# ruff: noqa: ASYNC240 - the folders are small

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal, Session
from tests.behaviour.product import Answer, configuration, office
from tests.waiting import until

pytestmark = [pytest.mark.microvm, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _where_they_boot() -> None:
    if not os.environ.get("CODEMODE_VM"):
        pytest.skip("needs a microVM: make vmtest")


@asynccontextmanager
async def host(config: Path) -> AsyncIterator[Any]:
    """Runs programs as a host does; with the patience that an emulated machine needs."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "codemode_server", "--config", str(config)], env=dict(os.environ)
    )
    async with Client(command, read_timeout_seconds=300) as client:

        async def run(code: str) -> Answer:
            return Answer(await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=300))

        with anyio.fail_after(300):
            while "connecting" in (await client.call_tool("list_dir", {"path": "/servers"})).content[0].text:  # type: ignore[union-attr]
                await anyio.sleep(1)
        yield run


def command(config: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "codemode_server", name, "--config", str(config), *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)


def machines() -> list[bytes]:
    """Names of microVMs that are there now, `codemode-<run>-<number>`; of the whole line, which `ps` may cut."""
    found: list[bytes] = []
    for told in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += [word for word in told.read_bytes().split(b"\0") if word.startswith(b"codemode-")]
    return found


def runs() -> set[bytes]:
    """Of which runs of the product there are machines; tests that ran before in this process may still have some."""
    return {name.rpartition(b"-")[0] for name in machines()}


SLOW = {"wall_seconds": 300, "upstream_seconds": 300}


async def test_a_host_gets_its_answers_from_a_microvm_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    sandbox = {"require": "microvm", "image": os.environ["CODEMODE_VM_IMAGE"]}
    config = configuration(tmp_path, office(tmp_path, "github"), sandbox=sandbox, limits=SLOW)
    others = runs()
    async with host(config) as run:
        first = await run(
            "from servers.github import list_issues\nopen('/workspace/note.txt', 'w').write('kept')\n"
            "import os\nos.system('uname -s')\nlen(list_issues(repo='a/b'))"
        )
        assert (first.value, first.content["stdout"], first.content["isolation"]) == (5, "Linux\n", "microvm")
        second = await run("open('/workspace/note.txt').read()")
        assert (second.value, second.content["isolation"]) == ("kept", "microvm")
        assert runs() > others
    await until(lambda: not runs() - others, 120)
    status = command(config, "status")
    for _ in range(5):
        if "connecting" in status.stdout:  # an emulated machine may need longer to connect than `status` waits
            status = command(config, "status")
    assert "sandbox: microVMs of microsandbox" in status.stdout, status
    assert status.returncode == 0


async def test_doctor_boots_one_and_says_so(tmp_path: Path) -> None:
    sandbox = {"require": "microvm", "image": os.environ["CODEMODE_VM_IMAGE"]}
    config = configuration(tmp_path, {}, sandbox=sandbox)
    others = runs()
    told = command(config, "doctor")
    assert told.returncode == 0, told
    assert "programs will run in: microVMs of microsandbox" in told.stdout
    assert runs() <= others


async def test_where_a_microvm_is_required_and_none_boots_nothing_runs(tmp_path: Path) -> None:
    sandbox = {"require": "microvm", "image": os.environ["CODEMODE_VM_IMAGE_NO_PYTHON"]}
    config = configuration(tmp_path, {}, sandbox=sandbox, limits=SLOW)
    async with host(config) as run:
        answer = await run("open('/workspace/ran', 'w').write('x')")
        assert answer.result.is_error
        assert "`sandbox.require: microvm` can't be met" in answer.text
        assert "has no python3" in answer.text
        assert "sandbox.image" in answer.text
    assert list(tmp_path.rglob("ran")) == []
    told = command(configuration(tmp_path, {}, sandbox={"image": sandbox["image"]}), "status")
    assert "sandbox: wasm, since no microVM can be had" in told.stdout, "`auto` takes less, and says why"
    assert "has no python3" in told.stdout


async def test_each_principal_has_a_machine_with_its_own_workspace(tmp_path: Path) -> None:
    look = "import os\nos.listdir('/workspace')"
    sandbox = {"require": "microvm", "image": os.environ["CODEMODE_VM_IMAGE"], "warm": 0}
    config = configuration(tmp_path, {}, sandbox=sandbox, limits=SLOW)
    found = {}
    async with App.open(load(config)) as app:
        app.connect()
        for name in ("alice", "bob", "alice"):
            identity = Identity(Principal(PrincipalId(name)))
            context = Caller.of(Session(f"of {name}"), app.config, identity)
            execution = app.executions.start(f"open('/workspace/of-{name}', 'w').write('')\n{look}", context)
            await execution.done.wait()
            assert execution.outcome.value is not None, execution.outcome
            found[name] = {it for it in execution.outcome.value if it.startswith("of-")}
    assert found == {"alice": {"of-alice"}, "bob": {"of-bob"}}
