"""The official tools, installed once a run, and a look after each test that it left no process behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.sandbox.backends.wasm import build, component
from tests.hosts.conformance import Suite, running
from tests.hosts.kit import ROOT, NodeTools, processes, until
from tests.hosts.model_hosts import LISTING_HOSTS, MODEL_HOSTS, ModelHost


@pytest.fixture(scope="session")
def node_tools() -> NodeTools:
    """The conformance suite and its Node."""
    return _installed("tools")


@pytest.fixture(scope="session")
def conformance(node_tools: NodeTools) -> Iterator[Suite]:
    """The conformance suite, whose start takes longer than a scenario."""
    with running(node_tools) as suite:
        yield suite


@pytest.fixture(scope="module", params=MODEL_HOSTS, ids=lambda host: host.name)
def installed_host(request: pytest.FixtureRequest) -> tuple[ModelHost, NodeTools]:
    """Each host in turn: tests of one host come together."""
    host: ModelHost = request.param
    return host, _installed(host.name)


@pytest.fixture(scope="module", params=LISTING_HOSTS, ids=lambda host: host.name)
def listing_host(request: pytest.FixtureRequest) -> tuple[ModelHost, NodeTools]:
    """Each host that lists its servers, in turn."""
    host: ModelHost = request.param
    return host, _installed(host.name)


def _installed(name: str) -> NodeTools:
    """Skips where npm or its registry can't be had, but not in CI, where that would go unnoticed for ever."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.npm", name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = done.stderr.strip()
        if os.environ.get("CI") == "true" and shutil.which("npm"):
            pytest.fail(reason)
        pytest.skip(reason)
    return NodeTools(done.stdout.strip())


@pytest.fixture(autouse=True, scope="session")
def _sandbox_is_compiled() -> None:
    """Once for this machine, so that no test takes the minute which that may take."""
    if not build.is_current():
        build.build_component()
    component.native_code(component.checked_component(), component.cache_folder(), print)


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """The product and its upstreams name the test's folder in their command lines."""
    yield
    until(lambda: not [process for process in processes() if str(tmp_path) in process.command])
