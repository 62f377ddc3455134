"""The likely mend of a failed program: told where it is certain from what the failing line worked on, else nothing."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, Tools
from tests.sandbox.shop import Shop

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]

ISSUES = "from servers.github import list_issues, create_issue, echo\nissues = list_issues(repo='a/b')\n"
KEYS = "the keys 'number', 'title', 'labels', 'created_at'"
BOTH = "to use both, write: import statistics; from servers.github import statistics as github_statistics"
HINTS: list[tuple[str, str]] = [
    ("issues[0]['titel']", f"issues[0] is a dict with {KEYS}; did you mean 'title'?"),
    ("issues[0]['createdAt']", f"issues[0] is a dict with {KEYS}; did you mean 'created_at'?"),
    ("def f(x):\n    return x[0]['titel']\nf(issues)", f"x[0] is a dict with {KEYS}; did you mean 'title'?"),
    ("list_issues(repo='a/b')['items']", "is a list of 2 items, which are dicts with"),
    ("issues['items']", f"issues is a list of 2 items, which are dicts with {KEYS}; use it as it is"),
    ("issues['title']", f"{KEYS}; write issues[0]['title'] or [row['title'] for row in issues]"),
    ("x = ['a', {'title': 1}]\nx['title']", "x is a list of 2 items: str, dict; write x[1]['title']"),
    ("issues[0].title", 'results are plain dicts: write ["title"] for .title'),
    ("issues.items()", "issues is a list of 2 items"),
    ("import json\njson.loads('plain text')", "the text 'plain text', which is no JSON"),
    ("x = 'some text'\nx['a']", "x is the text 'some text'"),
    (
        "from servers.github import statistics\nstatistics.mean([1])",
        f"statistics is the tool of servers.github here; {BOTH}",
    ),
    ("list_issues.titles", "it is the tool servers.github.list_issues, to be called: list_issues(…)"),
    ("async def f(): return {}\nx = f()\nx['a']", "await"),
]


PICTURE = "from servers.shop import picture\nr = picture()\n"
TEXT = "from servers.shop import by_start\nr = by_start('x')\n"
GAVE = "the text that by_start() gave; it begins 'abcde'"
RESULTS: list[tuple[str, str]] = [
    ("r['x']", "r is a list of 2 items: str, File; take r.files[0] or r.text"),
    ("picture()['x']", "is a list of 2 items: str, File; take picture().files[0] or picture().text"),
    ("r[1]['x']", "r[1] is a File: .data (bytes), .text, .mime_type, .size, .name, .save(path)"),
]
TEXTS: list[tuple[str, str]] = [
    ("r.splitlins()", f"r is {GAVE}"),
    ("r['name']", f"r is {GAVE}; its lines: r.splitlines()"),
    ("[row['name'] for row in r]", f"row is a character of {GAVE}; its lines: r.splitlines()"),
    (
        "for row in by_start('x'): row['name']",
        f"row is a character of {GAVE}; its lines: by_start('x').splitlines()",
    ),
    ("x = '{\"a\": 1}'\nx['a']", "; json.loads(x) reads it"),
]


PAGE = "a key of a dict with the keys 'items', 'query', 'next_cursor'"
DICTS: list[tuple[str, str]] = [
    ("for i in by_cursor('x'): i['id']", f"i is {PAGE}; loop over by_cursor('x')['items']"),
    ("r = by_cursor('x')\nfor i in r: i['id']", f"i is {PAGE}; loop over r['items']"),
    ("r = two_lists()\nfor i in r: i['id']", "'is_last'; loop over r['apples'] or r['pears']"),
    (
        "by_cursor('x')['items']['id']",
        "is a list of 3 items, which are dicts with the keys 'id', 'name'; write by_cursor",
    ),
    ("by_cursor('x')['query']['id']", "by_cursor('x')['query'] is the text 'x'"),
    ("r = [1, 2]\nr['id']", "r is a list of 2 items: int, int; its items are read by position: r[0]"),
]
SHOP = "from servers.shop import *\n"


@pytest.mark.parametrize(
    ("code", "hint"),
    [*((SHOP + c, h) for c, h in DICTS), *((PICTURE + c, h) for c, h in RESULTS), *((TEXT + c, h) for c, h in TEXTS)],
)
async def test_the_mend_says_what_a_result_holds_and_how_to_read_it(lab: Lab, code: str, hint: str) -> None:
    outcome = await lab.run(code, Shop())
    assert outcome.error is not None
    assert hint in outcome.error.hint


@pytest.mark.parametrize(("code", "hint"), HINTS)
async def test_the_mend_names_what_is_there(lab: Lab, code: str, hint: str) -> None:
    outcome = await lab.run(ISSUES + code, Tools())
    assert outcome.error is not None
    assert hint in outcome.error.hint


@pytest.mark.parametrize(
    "code",
    [
        "1 / 0",
        "raise ValueError('x')",
        "raise KeyError('x')",
        "raise KeyError",
        "{}.x.y",
        "import json\njson.dumps({1: object()})",
        "import math\nmath(1)",
        "d = {'a': 1}\nd = {}\nraise TypeError('list indices must be integers')",
        "from servers.github import boom\nboom()",
        "int('x')",
        "class D(dict):\n    def __missing__(self, k): raise KeyError(k)\nD()['a']",
    ],
)
async def test_where_nothing_is_certain_nothing_is_said_of_it(lab: Lab, code: str) -> None:
    outcome = await lab.run(code, Tools())
    assert outcome.error is not None
    assert outcome.error.hint in ("", "it is an empty dict; its keys are read with [...]")


async def test_looking_runs_nothing_of_the_program(lab: Lab) -> None:
    """Nor does an object that resists being looked at make another error of it."""
    code = (
        "seen = []\n"
        "class Odd(dict):\n"
        "    def __getitem__(self, key): seen.append(1); raise KeyError(key)\n"
        "    def __repr__(self): seen.append(2); raise RuntimeError\n"
        "    def __iter__(self): raise RuntimeError\n"
        "import atexit\n"
        "x = Odd(a=Odd())\n"
        "x['b']\n"
    )
    outcome = await lab.run(code)
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("KeyError", 3)


async def test_a_mend_is_short_whatever_there_is(lab: Lab) -> None:
    code = "x = {('k' * 1000) + str(n): n for n in range(10_000)}\nx['zzz']"
    outcome = await lab.run(code)
    assert outcome.error is not None
    assert 100 < len(outcome.error.hint) <= 500
