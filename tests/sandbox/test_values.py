"""What a program gives back, what it prints, and how it fails."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codemode_server.sandbox.contract import Ending
from tests.sandbox.lab import Lab, Tools, cases

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "value"),
    [
        pytest.param("1 + 1", 2, id="last expression"),
        pytest.param("x = 1", None, id="no expression"),
        pytest.param("async def main():\n    return 5\nmain()", 5, id="forgotten await"),
        pytest.param("async def main():\n    return 5\nawait main()", 5, id="top-level await"),
        pytest.param("if True:\n    return 3\n4", 3, id="top-level return"),
        pytest.param("import asyncio\nawait asyncio.sleep(0)\nreturn 6", 6, id="return beside await"),
        pytest.param("if __name__ == '__main__':\n    7", 7, id="main check"),
        pytest.param("(1, [2, {3}], None)", [1, [2, [3]], None], id="containers"),
        pytest.param("{3, 1, 2}", [1, 2, 3], id="set in order"),
        pytest.param("{1: 'a', None: 'b', (1, 2): 'c'}", {"1": "a", "null": "b", "(1, 2)": "c"}, id="keys"),
        pytest.param("2 ** 100", 2**100, id="large integer"),
        pytest.param("[float('nan'), float('inf'), -float('inf')]", ["NaN", "Infinity", "-Infinity"], id="not finite"),
        pytest.param("from datetime import *\n[date(2026, 1, 2), time(3, 4)]", ["2026-01-02", "03:04:00"], id="dates"),
        pytest.param("from dataclasses import *\n@dataclass\nclass D:\n    a: int\nD(1)", {"a": 1}, id="dataclass"),
        pytest.param("from collections import *\nnamedtuple('P', 'x y')(1, 2)", {"x": 1, "y": 2}, id="named tuple"),
        pytest.param("b'text\\n'", "text\n", id="bytes that are text"),
        pytest.param("b'\\x00\\xff'", {"bytes": 2}, id="bytes"),
        pytest.param(
            "from codemode import File\nFile(b'abc', 'a/b', 'n')",
            {"mime_type": "a/b", "size": 3, "name": "n"},
            id="file",
        ),
        pytest.param("[1, 1j, object]", [1, "1j", "<class 'object'>"], id="stranger inside"),
        pytest.param("'half a character: \\ud800'", "half a character: ?", id="lone surrogate"),
    ],
)
async def test_the_value_of_a_program(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(code) == value


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "value"),
    [
        pytest.param("class A:\n    def __repr__(self): return 'an A'\nA()", "an A", id="object"),
        pytest.param("a = [1]\na.append(a)\na", "[1, [...]]", id="circular"),
        pytest.param("10 ** 10_000", "<int of 33220 bits>", id="integer past what JSON readers take"),
    ],
)
async def test_what_json_can_not_hold_is_given_as_text(lab: Lab, code: str, value: str) -> None:
    outcome = await lab.run(code)
    assert (outcome.value, outcome.value_form) == (value, "repr")


RETURNING = """
from __future__ import annotations
from math import *
import collections
total: int = 0
unused: str
def add(n):
    global total
    total += n
class K:
    v = 5
try:
    1 / 0
except ZeroDivisionError as failure:
    text = str(failure)
for i in range(3):
    add(i)
with open("/tmp/x", "w") as handle:
    handle.write("x")
if (found := total) == 3:
    global total
    return [found, sqrt(16), K.v, text, [i * total for i in range(2)], "total" in globals(), collections.__name__]
add(100)
"""


async def test_much_printed_at_once_and_a_large_value_are_whole(lab: Lab) -> None:
    """More than any buffer on the way holds when the program has ended already."""
    outcome = await lab.run("print('x' * 4_000_000)\n'y' * 3_000_000")
    assert (len(outcome.stdout), outcome.value == "y" * 3_000_000) == (4_000_001, True)


@pytest.mark.parametrize(
    ("code", "error"),
    cases(
        {
            "exception": ("1/0", ("ZeroDivisionError", "division by zero")),
            "exit code": ("import sys\nsys.exit(3)", ("SystemExit", "exit code 3")),
            "exit message": ("import sys\nsys.exit('gone wrong')", ("SystemExit", "gone wrong")),
            "key": ("raise KeyError('k')", ("KeyError", "'k'")),
            "syntax": ("def f(: pass", ("SyntaxError", "invalid syntax (nothing was run)")),
            "yield at top level": ("yield 1\nreturn 2", ("SyntaxError", "'yield' outside function (nothing was run)")),
        },
        "exception",
    ),
)
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
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import asyncio\nasync def main():\n    {}['k']\nasyncio.run(main())", id="asyncio.run"),
        pytest.param("import asyncio\nx = 1\n{}['k']\nawait asyncio.sleep(0)", id="top-level await"),
        pytest.param("from servers.github import boom\nx = 1\nboom()", id="tool"),
        pytest.param("x = 1\ny = 2\n1/0\nreturn 5", id="top-level return"),
    ],
)
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


@pytest.mark.parametrize(
    "code",
    cases(
        {
            "through sorted": "f = lambda x: sorted([1, 2], key=f)\nf(1)",
            "getattr": "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().y",
            "json": "import json\njson.loads('[' * 100_000)",
            "repr": "x = []\nfor _ in range(100_000): x = [x]\nrepr(x)",
            "parser": "eval('(' * 5_000 + ')' * 5_000)",
        },
        "through sorted",
        "parser",
    ),
)
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
