"""Every backend there is, one of each for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from codemode_server.sandbox.backend import SandboxBackend
from codemode_server.sandbox.wasm import build
from codemode_server.sandbox.wasm.backend import WasmBackend
from tests.sandbox.lab import Lab


def make_wasm() -> SandboxBackend:
    if not build.is_current():
        build.build_component()
    return WasmBackend(warm=2, announce=lambda line: print(line, file=sys.stderr))


BACKENDS = {"wasm": make_wasm}


@pytest_asyncio.fixture(loop_scope="session", scope="session", params=sorted(BACKENDS))
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[SandboxBackend]:
    made = BACKENDS[request.param]()
    await made.start()
    yield made
    await made.aclose()


@pytest.fixture
def lab(backend: SandboxBackend) -> Lab:
    return Lab(backend)
