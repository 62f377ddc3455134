"""The likely mend of a failed program: told where it is certain from what the failing line worked on, else nothing."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, Tools

pytestmark = pytest.mark.asyncio(loop_scope="session")

ISSUES = "from servers.github import list_issues, create_issue, echo\nissues = list_issues(repo='a/b')\n"
KEYS = "the keys 'number', 'title', 'labels', 'created_at'"
HINTS: list[tuple[str, str]] = [
    ("issues[0]['titel']", f"issues[0] is a dict with {KEYS}; did you mean 'title'?"),
    ("issues[0]['createdAt']", f"issues[0] is a dict with {KEYS}; did you mean 'created_at'?"),
    ("issues[0]['zzz']", f"issues[0] is a dict with {KEYS}"),
    ("[i['titel'] for i in issues]", f"i is a dict with {KEYS}; did you mean 'title'?"),
    ("list(i['titel'] for i in issues)", f"i is a dict with {KEYS}; did you mean 'title'?"),
    ("for i in issues:\n    i['titel']", f"i is a dict with {KEYS}; did you mean 'title'?"),
    ("def f(x):\n    return x[0]['titel']\nf(issues)", f"x[0] is a dict with {KEYS}; did you mean 'title'?"),
    ("list_issues(repo='a/b')['items']", "is a list of 2 items, which are dicts with"),
    ("issues['items']", f"issues is a list of 2 items, which are dicts with {KEYS}; use it as it is"),
    ("issues['title']", "; write [0]['title'], or loop over it"),
    ("issues[7]", "it is a list of 2 items"),
    ("issues[0].title", 'results are plain dicts: write ["title"] for .title'),
    ("issues[0].titel", ": write ['title']"),
    ("issues.items()", "it is a list of 2 items"),
    ("x = issues[0].get('zzz')\nx['a']", "x is None"),
    ("x = None\nx.a", "it is None"),
    ("import json\njson.loads('plain text')", "the text 'plain text', which is no JSON"),
    ("import json\njson.loads('')", "the text is empty"),
    ("x = 'some text'\nx['a']", "x is the text 'some text'"),
    ("async def f(): return {}\nx = f()\nx['a']", "await"),
    ("async def f(): return {}\nx = f()\nx.get('a')", "await"),
    (
        "async def f():\n    i = await list_issues(repo='a')\n    return i[0]['titel']\nawait f()",
        "did you mean 'title'?",
    ),
]


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
        "d = {'a': 1}\nd = {}\nraise TypeError('list indices must be integers')",
        "from servers.github import boom\nboom()",
        "int('x')",
        "class D(dict):\n    def __missing__(self, k): raise KeyError(k)\nopen('/none')",
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
