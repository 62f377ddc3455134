"""Wrong keys and attributes of results, by the types in the tools' stubs."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.observed import Observed, shape_of

from .kit import DRIVE, GITHUB, TEXT, checked, errors, lines, listing, lone, tool, warnings

HEAD = "from servers.github import *\n"
ISSUE_HAS = "It has number, title, labels? (from get_issue())."


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "get_issue('a', 1)['titel']",
            f'Unknown key "titel" for TypedDict `GetIssueResult` - did you mean "title"? {ISSUE_HAS}',
        ),
        ("f\"{get_issue('a', 1)['xyz']}\"", f'Unknown key "xyz" for TypedDict `GetIssueResult`. {ISSUE_HAS}'),
        (
            "x = get_issue('a', 1); print(x.title)",
            f"Object of type `GetIssueResult` has no attribute `title`; write ['title']. {ISSUE_HAS}",
        ),
    ],
)
async def test_what_a_declared_type_rules_out_stops_the_program(code: str, expected: str) -> None:
    assert await errors(HEAD + code) == [f"2: {expected}"]


@pytest.mark.parametrize(
    "code",
    [
        "async def main():\n    issue = await get_issue('a', 1)\n    print(issue['titel'])\nawait main()",
        "import asyncio\nasync def main():\n    issues = await asyncio.gather(*[get_issue(r, 1) for r in 'ab'])\n"
        "    print(issues[0]['titel'])\nasyncio.run(main())",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    rows = list(pool.map(lambda n: n, [1]))\nx = get_issue('a', rows[0])\nx['titel']",
        "def pick():\n    return [i for i in list_issues('a') if i['titel']]\npick()",
        "for issue in sorted(list_issues('a'), key=len)[:3]:\n    print(issue['titel'])",
    ],
)
async def test_a_wrong_key_is_seen_however_the_result_came(code: str) -> None:
    found = await checked(HEAD + code)
    assert any('did you mean "title"?' in line for line in lines((*found.errors, *found.warnings)))


@pytest.mark.parametrize(
    "code",
    [
        "issue = get_issue('a', 1)\nissue['age'] = 3\nprint(issue['age'])",
        "issue = get_issue('a', 1)\nissue.update(age=3)\nprint(issue['age'])",
        "issue = get_issue('a', 1)\nif 'age' in issue:\n    print(issue['age'])",
        "issue = get_issue('a', 1)\nprint(issue['age'] if issue.get('age') else 0)",
        "more = {'age': 5}\nissue = get_issue('a', 1) | more\nprint(issue['age'])",
        "issue = dict(get_issue('a', 1))\nissue['age'] = 1\nprint(issue['age'], issue.pop('age'))",
        "rows = [{**i, 'n': len(i['title'])} for i in list_issues('a')]\nprint(rows[0]['n'])",
        "from collections import defaultdict\nby = defaultdict(list)\nfor i in list_issues('a'):\n"
        "    by[i['title']].append(i)",
        "import asyncio\nasync def main():\n    calls = {'a': get_issue('a', 1)}\n"
        "    print(calls['a']['title'])\nawait main()",
        "import asyncio\nasync def main():\n    tasks = []\n    for r in 'ab': tasks.append(get_issue(r, 1))\n"
        "    for x in await asyncio.gather(*tasks): print(x['title'])\nawait main()",
        "import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as g:\n"
        "        t = g.create_task(get_issue('a', 1))\n    print(t.result()['title'])\nawait main()",
        "x = get_issue('a', 1)\nreturn x['title']",
        "keys = sorted(get_issue('a', 1))\nkeys.append('b')\nprint(keys.index('b'))",
        "from datetime import date\nsearch(date.today())",
        "args = {'repo': 'a', 'number': 1}\nget_issue(**args)['title']",
        "list = [1]\nstr = 'a'\nget_issue(str, list[0])['title']",
        "n = '5'\ndef change():\n    global n\n    n = 5\nchange()\nget_issue('a', n)",
        "import json\nprint(json.loads(list_issues('a'))[0]['title'], json.loads(search('a')))",
        "n = '5' if issues else 5\nget_issue('a', n)".replace("issues", "list_issues('a')"),
        "cursor = None\nwhile True:\n    page = echo(cursor=cursor)\n    cursor = page.get('next')\n"
        "    if not cursor: break",
        "for name in ('a', 'b'):\n    try:\n        print(get_issue(name, 1)['nothing'])\n"
        "    except KeyError:\n        pass",
    ],
)
async def test_what_works_at_run_time_is_not_stopped(code: str) -> None:
    assert (await checked(HEAD + code)).errors == ()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "list_issues('a')['items']",
            "2: a list can't be indexed by 'items'; an item has number, title, labels? (from list_issues()).",
        ),
        (
            "create_issue('a', 'b')['nummer']",
            '2: Unknown key "nummer" for TypedDict `CreateIssueResult` - did you mean "number"? '
            "It has number, url? (from create_issue()).",
        ),
        (
            "for issue in list_issues('a'): print(issue['nummer'])",
            '2: Unknown key "nummer" for TypedDict `ListIssuesResult` - did you mean "number"? '
            "It has number, title, labels? (from list_issues()).",
        ),
    ],
    ids=["a list", "an open type", "a loop"],
)
async def test_what_may_be_right_at_run_time_is_a_warning(code: str, expected: str) -> None:
    assert await warnings(HEAD + code) == [expected]


CONTENT = {
    "type": "object",
    "properties": {"kind": TEXT, "text": TEXT},
    "required": ["kind", "text"],
    "additionalProperties": False,
}
BINARY = {**CONTENT, "properties": {"kind": TEXT, "blob": TEXT}, "required": ["kind", "blob"]}
READING = (
    tool("read_all", {}, (), lone({"type": "array", "items": {"anyOf": [CONTENT, BINARY]}})),
    tool("read_one", {}, (), lone({"anyOf": [BINARY, CONTENT, {"type": "null"}]})),
    tool("rows", {}, (), lone({"anyOf": [{"type": "array", "items": CONTENT}, BINARY]})),
    tool("text_or_all", {}, (), lone({"anyOf": [CONTENT, {"type": "array", "items": {"type": "integer"}}]})),
)


@pytest.mark.parametrize(
    "code",
    [
        *("read_all()[0]['text']", "read_all()[0]['blob']", "for part in read_all(): part['blob']"),
        *("read_one()['text']", "read_one()['blob']", "[read_one()['kind'], read_one()['blob']]"),
        *("rows()['blob']", "rows()[0]['text']", "text_or_all()['text']", "text_or_all()[0]", "rows() + [1]"),
    ],
)
async def test_a_key_that_any_member_of_a_union_has_is_fine(code: str) -> None:
    """Which member came is decided at run time."""
    catalog = Catalog.build([listing("files", *READING)])
    assert await warnings(f"from servers.files import *\n{code}", catalog) == []


def observed(result: Any, calls: int) -> Observed:
    seen = Observed(1, shape_of(result))
    for _ in range(calls - 1):
        seen = seen.merged(Observed(1, shape_of(result)))
    return seen


async def test_a_key_that_was_never_observed_is_a_warning_that_says_how_often_was_looked() -> None:
    document = observed({"content": "text", "owner": "me"}, 14)
    catalog = Catalog.build(
        [listing("github", *GITHUB), listing("google_drive", *DRIVE)],
        observed=lambda _server, definition: document if definition.name == "get_document" else None,
    )
    code = "from servers.google_drive import get_document\nprint(get_document('x')['contents'])"
    assert await warnings(code, catalog) == [
        '2: Unknown key "contents" for TypedDict `GetDocumentResult` - did you mean "content"? '
        "It has content, owner (from get_document(), as observed in 14 calls)."
    ]


async def test_a_key_that_was_never_observed_is_no_matter_where_what_was_asked_decides_the_keys() -> None:
    """Rows have the columns that a query names."""
    rows = [{"id": 1, "name": "x", "city": "y"}, {"number": 1, "city": "y"}, {"mean": 1.5}, {"latest": "x"}]
    document = observed(rows, 14)
    catalog = Catalog.build(
        [listing("google_drive", *DRIVE)],
        observed=lambda _server, definition: document if definition.name == "get_document" else None,
    )
    head = "from servers.google_drive import get_document\nprint(get_document('x')[0]"
    assert await warnings(f"{head}['total'])", catalog) == []
    assert len(await warnings(f"{head}['latests'])", catalog)) == 1, "control: one that is misspelt"


FILE_RESULT = {
    "type": "object",
    "properties": {"content": TEXT},
    "required": ["content"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("end", ["r.files", "r['files'][0]", "[f.size for f in r.files]", "r.files if r.files else r"])
async def test_files_beside_a_declared_result_are_never_found_wrong(end: str) -> None:
    catalog = Catalog.build([listing("media", tool("read", {}, gives=FILE_RESULT))])
    found = await checked(f"from servers.media import read\nr = read()\n{end}", catalog)
    assert (found.errors, found.warnings) == ((), ())
