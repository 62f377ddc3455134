"""Programs as models write them, in every backend's Python; what they print is what CPython prints."""

from __future__ import annotations

import sys

import anyio
import pytest

from codemode_server.sandbox.contract import Ending
from tests.programs import PROGRAMS
from tests.sandbox.lab import Lab, cases

pytestmark = pytest.mark.asyncio(loop_scope="session")
PRINTED = {
    "tool-exception": "ToolError boom: no such repository\n",
    "tool-kwargs-default": "2\n",
    "tool-map": "[2, 2, 2]\n",
    "tool-threadpool": "[2, 2, 2]\n",
    "tool-to_thread": "[2, 2, 2]\n",
    "asyncio-basic": "[0, 2, 4]\n",
    "asyncio-timeout-queue": "1\nTO\nsem\n",
    "async-gen": "[0, 1, 2]\n",
    "toplevel-await": "tla\n",
    "agent-report": "| bug      |   2 |    7.0 |\n| ui       |   1 |    5.0 |\n",
    "open-file": "['l1', 'l2']\n",
    "introspect": "['append', 'clear', 'copy'] None True True True\n",
}
"""Where the same program can't be run by the Python that runs the tests."""
SAMPLES = {name: (name, code) for name, code in PROGRAMS if name not in ("numpy", "pandas")}


@pytest.mark.parametrize(("name", "code"), cases(SAMPLES, "tool-threadpool", "asyncio-basic", "toplevel-await"))
async def test_a_program_of_the_collection_prints_what_cpython_prints(lab: Lab, name: str, code: str) -> None:
    """The host's own CPython is the oracle for what needs no tool."""
    outcome = await lab.run(code)
    assert outcome.ending is Ending.RETURNED, outcome.error
    if name in PRINTED:
        assert outcome.stdout == PRINTED[name]
    else:
        oracle = await anyio.run_process([sys.executable, "-I", "-c", code])
        assert outcome.stdout == oracle.stdout.decode()


ADVICE = {
    "wasm": "not available in the wasm sandbox; use the standard library",
    "microsandbox": "not available in the sandbox; use the standard library",
}


@pytest.mark.parametrize(
    "module",
    cases(
        ["numpy", "pandas.core"],
        "numpy",
    ),
)
async def test_a_package_that_is_not_there_says_what_to_use(lab: Lab, module: str) -> None:
    kind, message = await lab.error(f"import {module}")
    assert kind == "ModuleNotFoundError"
    assert message.startswith(f"No module named {module.split('.')[0]!r}: {ADVICE[lab.backend.name]}")


@pytest.mark.portable
@pytest.mark.parametrize(("module", "meant"), [("jsno", "json"), ("servre.git", "servers")])
async def test_a_misspelt_module_is_told_the_one_that_was_meant(lab: Lab, module: str, meant: str) -> None:
    _, message = await lab.error(f"import {module}")
    assert f": did you mean {meant!r}?" in message


async def test_time_zones_are_there_without_files(lab: Lab) -> None:
    code = """
    from datetime import datetime
    from zoneinfo import ZoneInfo, available_timezones
    d = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    [d.isoformat(), d.astimezone(ZoneInfo("America/New_York")).hour, len(available_timezones()) > 400]
    """
    assert await lab.value(code) == ["2026-07-01T12:00:00+02:00", 6, True]


@pytest.mark.parametrize(
    "module",
    cases(
        ["tomllib", "sqlite3", "zlib", "gzip", "decimal", "email.message", "unittest.mock", "zipfile", "http.client"],
        "sqlite3",
    ),
)
async def test_the_standard_library_is_there(lab: Lab, module: str) -> None:
    assert await lab.value(f"import {module}\n{module}.__name__") == module


@pytest.mark.parametrize(
    "expression",
    cases(
        ["random.random()", "str(uuid.uuid4())", "secrets.token_hex()", "os.urandom(8).hex()"],
        "os.urandom(8).hex()",
    ),
)
async def test_chance_differs_between_programs(lab: Lab, expression: str) -> None:
    """The image of the interpreter holds the random state of the day it was built."""
    code = f"import os, random, secrets, uuid\n{expression}"
    assert len({await lab.value(code) for _ in range(3)}) == 3
