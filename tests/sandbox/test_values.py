"""What a program gives back, what it prints, and how it fails."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codemode_server.sandbox.contract import Ending
from tests.sandbox.lab import Lab, Tools, cases
from tests.tables import rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)


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
async def test_the_error_of_a_program(lab: Lab, code: str, error: tuple[str, str]) -> None:
    assert await lab.error(code) == error


@pytest.mark.portable
async def test_input_says_why_it_can_not_be(lab: Lab) -> None:
    kind, message = await lab.error("input('name? ')")
    assert (kind, "nobody to answer" in message) == ("RuntimeError", True)


async def test_a_traceback_shows_the_programs_own_lines_only(lab: Lab) -> None:
    code = "import json\ndef read(text):\n    return json.loads(text)\n\nread('{')\n"
    outcome = await lab.run(code)
    assert outcome.error is not None
    assert outcome.error.line == 3
    assert outcome.error.traceback.splitlines() == [
        "line 5: read('{')",
        "line 3, in read: return json.loads(text)",
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["tracebacks"]))
async def test_no_traceback_shows_the_insides_of_the_sandbox(lab: Lab, code: str) -> None:
    outcome = await lab.run(code)
    assert outcome.error is not None
    *where, _ = outcome.error.traceback.splitlines()
    assert (where[-1].startswith("line 3"), outcome.error.line) == (True, 3)
    assert not re.search("__codemode|codemode_guest|asyncio/|File", outcome.error.traceback)


@pytest.mark.portable
async def test_a_syntax_error_points_at_the_place(lab: Lab) -> None:
    outcome = await lab.run("x = 1\ny = (2,\nz = 3\n")
    assert outcome.error is not None
    assert outcome.error.line == 2
    assert "y = (2," in outcome.error.traceback
    assert "^" in outcome.error.traceback


@pytest.mark.parametrize("code", cases(TABLES["recursions"], "through sorted", "parser"))
async def test_recursion_in_the_library_ends_the_program_with_a_reason(lab: Lab, code: str) -> None:
    """It may exhaust the interpreter's own stack, which no program survives; the next one does."""
    outcome = await lab.run(code)
    assert outcome.ending in (Ending.RAISED, Ending.DIED)
    assert outcome.error is not None
    assert outcome.error.message
    assert await lab.value("6 * 7") == 42


@pytest.mark.portable
async def test_an_error_in_a_skill_shows_the_skills_line(lab: Lab) -> None:
    outcome = await lab.run("from skills.triage import broken\nbroken()", Tools())
    assert outcome.error is not None
    assert outcome.error.line == 2
    assert "raise ValueError('in a skill')" in outcome.error.traceback
