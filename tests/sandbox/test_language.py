"""Programs as models write them: what CPython prints, what a program gives back, and how it fails."""

from __future__ import annotations

import re
import sys
from typing import Any

import anyio
import pytest

from codemode_server.sandbox.contract import Ending
from tests.programs import PROGRAMS
from tests.sandbox.lab import Lab, cases
from tests.tables import rows, tables

TABLES = tables(__file__)
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
    "remote": "not available in the wasm sandbox; use the standard library",
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


@pytest.mark.portable
@pytest.mark.parametrize(("code", "value"), rows(TABLES["values"]))
async def test_the_value_of_a_program(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(code) == value


@pytest.mark.portable
@pytest.mark.parametrize(("code", "value"), rows(TABLES["texts"]))
async def test_what_json_can_not_hold_is_given_as_text(lab: Lab, code: str, value: str) -> None:
    outcome = await lab.run(code)
    assert (outcome.value, outcome.value_form) == (value, "repr")


async def test_much_printed_at_once_and_a_large_value_are_whole(lab: Lab) -> None:
    """More than any buffer on the way holds when the program has ended already."""
    outcome = await lab.run("print('x' * 4_000_000)\n'y' * 3_000_000")
    assert (len(outcome.stdout), outcome.value == "y" * 3_000_000) == (4_000_001, True)


@pytest.mark.parametrize(("code", "error"), cases(TABLES["errors"], "exception"))
async def test_the_error_of_a_program(lab: Lab, code: str, error: list[str]) -> None:
    assert [*await lab.error(code)] == error


@pytest.mark.portable
async def test_input_says_why_it_can_not_be(lab: Lab) -> None:
    kind, message = await lab.error("input('name? ')")
    assert (kind, "nobody to answer" in message) == ("RuntimeError", True)


async def test_a_traceback_shows_the_programs_own_lines_only(lab: Lab) -> None:
    code = "import json\ndef read(text):\n    return json.loads(text)\n\nread('{')\n"
    error = await lab.failure(code)
    assert error.line == 3
    assert error.traceback.splitlines() == [
        "line 5: read('{')",
        "line 3, in read: return json.loads(text)",
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["tracebacks"]))
async def test_no_traceback_shows_the_insides_of_the_sandbox(lab: Lab, code: str) -> None:
    error = await lab.failure(code)
    *where, _ = error.traceback.splitlines()
    assert (where[-1].startswith("line 3"), error.line) == (True, 3)
    assert not re.search("__codemode|codemode_guest|asyncio/|File", error.traceback)


@pytest.mark.portable
async def test_a_syntax_error_points_at_the_place(lab: Lab) -> None:
    error = await lab.failure("x = 1\ny = (2,\nz = 3\n")
    assert error.line == 2
    assert "y = (2," in error.traceback
    assert "^" in error.traceback


@pytest.mark.parametrize("code", cases(TABLES["recursions"], "through sorted", "parser"))
async def test_recursion_in_the_library_ends_the_program_with_a_reason(lab: Lab, code: str) -> None:
    """It may exhaust the interpreter's own stack, which no program survives; the next one does."""
    outcome = await lab.run(code)
    assert outcome.ending in (Ending.RAISED, Ending.DIED)
    assert outcome.error is not None
    assert outcome.error.message
    assert await lab.value("6 * 7") == 42
