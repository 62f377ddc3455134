"""pandas and matplotlib in real microVMs, whose image has Python 3.11, from the folder that `make vmtest` installs."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from codemode_server.config.settings import LimitSettings
from codemode_server.sandbox.contract import Ending, started
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.sandbox.registry import SandboxSettings
from scripts import native_packages
from tests.sandbox.lab import MICROVM, Lab, Tools

pytestmark = [pytest.mark.asyncio(loop_scope="module"), *MICROVM]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend

    chosen = {"backend": "microsandbox", "image": os.environ["CODEMODE_VM_IMAGE"], "warm": 0}
    workspace = tmp_path_factory.mktemp("workspace")
    packages = Packages(native_packages.folder("3.11").resolve())
    backend = await started(
        MicrovmBackend(SandboxSettings.model_validate(chosen), LimitSettings(), workspace, packages=packages)
    )
    tending = asyncio.create_task(backend.tend())
    yield Lab(backend, workspace)
    tending.cancel()
    await asyncio.wait([tending])
    await backend.aclose()


async def test_pandas_groups_100000_rows_within_the_usual_memory(lab: Lab) -> None:
    code = """
    import pandas as pd
    numbers = range(100_000)
    frame = pd.DataFrame({"region": [f"r{number % 7}" for number in numbers], "amount": numbers})
    frame.groupby("region").agg(total=("amount", "sum"), most=("amount", "max"))
    """
    groups = {f"r{rest}": range(rest, 100_000, 7) for rest in range(7)}
    expected = [{"region": name, "total": sum(group), "most": max(group)} for name, group in groups.items()]
    assert await lab.value(code, memory_mb=LimitSettings().memory_mb) == expected


async def test_a_plot_of_matplotlib_comes_as_an_image(lab: Lab) -> None:
    """matplotlib has a folder that it can write to, so that stderr says nothing of it."""
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    tools = Tools()
    outcome = await lab.run(code, tools, memory_mb=LimitSettings().memory_mb)
    assert outcome.ending is Ending.RETURNED, outcome
    assert outcome.stderr in ("", "Matplotlib is building the font cache; this may take a moment.\n")
    ((data, mime_type, _),) = tools.shown
    assert (data[:8], mime_type) == (b"\x89PNG\r\n\x1a\n", "image/png")
    assert min(struct.unpack(">II", data[16:24])) > 300
