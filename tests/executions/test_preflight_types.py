"""What the type checker adds: wrong keys and attributes of results, arguments whose type only follows from others."""

from __future__ import annotations

import time
from typing import Any

import pytest

from codemode_server.catalog import shapes
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.observed import Observed
from codemode_server.executions.preflight.checker import TypeChecker
from codemode_server.executions.preflight.findings import Findings
from codemode_server.executions.preflight.reading import read

from .kit import DRIVE, GITHUB, ISSUE, OFFICE, TEXT, checked, errors, lines, listing, lone, tool, warnings

HEAD = "from servers.github import *\n"
ISSUE_HAS = "It has number, title, labels?."

WORDS = """
from typing import TypedDict
class T(TypedDict):
    title: str
class Tool:
    def __call__(self, limit: int) -> T: raise NotImplementedError
tool = Tool()
one = tool(1)
one["titel"]
one.title
tool(limit="5")
[one]["a"]
one + 1
await one
"""


async def test_the_type_checker_says_things_in_the_words_that_we_read() -> None:
    """`ty` is not at 1.0: if this fails after an update, `diagnostics.py` has to learn its words, or the pin stays."""
    checker = TypeChecker(seconds=20)
    found = await checker.diagnostics(WORDS)
    await checker.aclose()
    assert found is not None, "the type checker did not answer: see what checker.py asks of it"
    said = {one.start: one.message.split("\n")[0] for one in found}
    assert said[9, 4].startswith('Unknown key "titel" for TypedDict `T`')
    assert said[10, 0] == "Object of type `T` has no attribute `title`"
    assert said[11, 5] == (
        'Argument to bound method `Tool.__call__` is incorrect: Expected `int`, found `Literal["5"]`'
    )
    assert "Method `__getitem__` of type " in said[12, 0]
    assert said[12, 0].endswith('cannot be called with key of type `Literal["a"]` on object of type `list[T]`')
    assert said[13, 0] == "Operator `+` is not supported between objects of type `T` and `Literal[1]`"
    codes = {one.start: one.code for one in found}
    assert codes[13, 0] == "unsupported-operator"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "get_issue('a', 1)['titel']",
            f"what get_issue() gives has no key 'titel'; did you mean 'title'? {ISSUE_HAS}",
        ),
        (
            "for issue in list_issues('a'): print(issue['nummer'])",
            f"an item of list_issues() has no key 'nummer'; did you mean 'number'? {ISSUE_HAS}",
        ),
        ("f\"{get_issue('a', 1)['xyz']}\"", f"what get_issue() gives has no key 'xyz'. {ISSUE_HAS}"),
        (
            "x = get_issue('a', 1)\nprint(x.title)".replace("\n", "; "),
            f"what get_issue() gives is a dict without attribute 'title'; write ['title']. {ISSUE_HAS}",
        ),
        (
            "wanted = '5'; list_issues('a', limit=wanted)",
            "list_issues(): 'limit' must be an integer, not \"5\".",
        ),
        (
            "state = 'done'; list_issues({'repo': 'a', 'state': state})",
            'list_issues(): \'state\' must be one of "open", "closed", "all", not "done".',
        ),
    ],
)
async def test_what_a_declared_type_rules_out_stops_the_program(code: str, expected: str) -> None:
    assert await errors(HEAD + code) == [f"2: {expected}"]


@pytest.mark.parametrize(
    "code",
    [
        "async def main():\n    issue = await get_issue('a', 1)\n    print(issue['titel'])\nawait main()",
        "async def main():\n    issue = get_issue('a', 1)['titel']\nawait main()",
        "import asyncio\nasync def main():\n    issues = await asyncio.gather(*[get_issue(r, 1) for r in 'ab'])\n"
        "    print(issues[0]['titel'])\nasyncio.run(main())",
        "import asyncio\nasync def main():\n    one, more = await asyncio.gather(get_issue('a', 1), list_issues('a'))\n"
        "    print(one['titel'])\nasyncio.run(main())",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    rows = list(pool.map(lambda n: n, [1]))\nx = get_issue('a', rows[0])\nx['titel']",
        "def pick():\n    return [i for i in list_issues('a') if i['titel']]\npick()",
        "best = max(list_issues('a'), key=lambda i: i['titel'])",
    ],
)
async def test_a_wrong_key_is_seen_however_the_result_came(code: str) -> None:
    found = await checked(HEAD + code)
    assert any("did you mean 'title'?" in line for line in lines((*found.errors, *found.warnings)))


@pytest.mark.parametrize(
    "code",
    [
        "issue = get_issue('a', 1)\nissue['age'] = 3\nprint(issue['age'])",
        "issue = get_issue('a', 1)\nissue.update(age=3)\nprint(issue['age'])",
        "issue = get_issue('a', 1)\nif 'age' in issue:\n    print(issue['age'])",
        "issue = get_issue('a', 1)\nprint(issue['age'] if issue.get('age') else 0)",
        "issue = get_issue('a', 1)\nprint(issue.get('age', 0) + 1)",
        "issue = get_issue('a', 1) | {'age': 5}\nprint(issue['age'])",
        "more = {'age': 5}\nissue = get_issue('a', 1) | more\nprint(issue['age'])",
        "more = {'age': 5}\nissue = get_issue('a', 1)\nissue |= more\nprint(issue['age'])",
        "issue = dict(get_issue('a', 1))\nissue['age'] = 1\nprint(issue['age'], issue.pop('age'))",
        "issue = {**get_issue('a', 1), 'age': 5}\nprint(issue['age'])",
        "rows = [{**i, 'n': len(i['title'])} for i in list_issues('a')]\nprint(rows[0]['n'])",
        "from collections import defaultdict\nby = defaultdict(list)\nfor i in list_issues('a'):\n"
        "    by[i['title']].append(i)",
        "import json\nissue = json.loads(json.dumps(get_issue('a', 1)))\nprint(issue['any'])",
        "text = search('a')\nprint(text.upper() if text else text)",
        "import asyncio\nasync def main():\n    calls = {'a': get_issue('a', 1)}\n"
        "    print(calls['a']['title'])\nawait main()",
        "import asyncio\nasync def main():\n    tasks = []\n    for r in 'ab': tasks.append(get_issue(r, 1))\n"
        "    for x in await asyncio.gather(*tasks): print(x['title'])\nawait main()",
        "import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as g:\n"
        "        t = g.create_task(get_issue('a', 1))\n    print(t.result()['title'])\nawait main()",
        "import requests\nrequests.get('http://x')\nget_issue('a', 1)",
        "x = get_issue('a', 1)\nreturn x['title']",
        "from datetime import date\nsearch(date.today())",
        "from pathlib import Path\nsearch(Path('a') / 'b')",
        "labels = {'a', 'b'}\nlist_issues('a', labels=labels)",
        "labels = ('a', 'b')\nlist_issues('a', labels=labels)",
        "data = {'a': 1}\nupdate(data)",
        "args = {'repo': 'a', 'number': 1}\nget_issue(**args)['title']",
        "args = {'repo': 'a', 'number': 1}\nget_issue(args)['title']",
        "list = [1]\nstr = 'a'\nget_issue(str, list[0])['title']",
        "n = '5'\nfor _ in range(2):\n    n = int(n) + 1\nget_issue('a', n)",
        "n = '5'\ndef change():\n    global n\n    n = 5\nchange()\nget_issue('a', n)",
        "import json\nprint(json.loads(list_issues('a'))[0]['title'], json.loads(search('a')))",
        "def f(n='5'):\n    return get_issue('a', n)\nf(5)",
        "class C:\n    n = '5'\nC.n = 5\nget_issue('a', C.n)",
        "n = '5' if issues else 5\nget_issue('a', n)".replace("issues", "list_issues('a')"),
        "import os\nget_issue(os.environ.get('REPO'), 1)",
        "cursor = None\nwhile True:\n    page = echo(cursor=cursor)\n    cursor = page.get('next')\n"
        "    if not cursor: break",
        "for name in ('a', 'b'):\n    try:\n        print(get_issue(name, 1)['nothing'])\n"
        "    except KeyError:\n        pass",
    ],
)
async def test_what_works_at_run_time_is_not_stopped(code: str) -> None:
    assert (await checked(HEAD + code)).errors == ()


async def test_a_type_that_does_not_fit_for_sure_is_a_warning_where_it_is_inferred() -> None:
    assert await warnings(HEAD + "def f(rows: list[str]):\n    get_issue(len(rows), 1)\nf([])") == [
        "3: get_issue(): 'repo' takes str, not int."
    ]
    assert await warnings(HEAD + "list_issues('a')['items']") == [
        "2: list[ListIssuesResult] can't be indexed by 'items' (from list_issues())"
    ]
    (line,) = await warnings(HEAD + "def f(n: int): ...\nf(list_issues('a'))")
    assert line.startswith("3: Argument to function `f` is incorrect: ")
    assert "found `list[ListIssuesResult]` (from list_issues())" in line


async def test_a_key_that_an_open_type_lacks_is_a_warning() -> None:
    assert await warnings(HEAD + "create_issue('a', 'b')['nummer']") == [
        "2: what create_issue() gives has no key 'nummer'; did you mean 'number'? It has number, url?."
    ]


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
    """Which member came is decided at run time; the checker reports each that lacks the key."""
    catalog = Catalog.build([listing("files", *READING)])
    assert await warnings(f"from servers.files import *\n{code}", catalog) == []


async def test_a_key_that_no_member_of_a_union_has_is_one_warning_with_the_keys_of_all() -> None:
    catalog = Catalog.build([listing("files", *READING)])
    assert await warnings("from servers.files import *\nread_all()[0]['txt']", catalog) == [
        "2: an item of read_all() has no key 'txt'; did you mean 'text'? It has kind, text?, blob?."
    ]
    (line,) = await warnings("from servers.files import *\nread_one()['xyz']", catalog)
    assert line == "2: what read_one() gives has no key 'xyz'. It has kind, blob?, text?."


NODE = {"type": "object", "properties": {"label": TEXT, "notes": TEXT}, "required": ["label"]}
KIND = {"type": "object", "properties": {"label": TEXT}, "required": ["label"]}
EDGE = {"type": "object", "properties": {"source": TEXT, "kind": KIND}}
GRAPH = {
    "type": "object",
    "properties": {
        "nodes": {"type": "array", "items": NODE},
        "by_name": {"type": "object", "additionalProperties": EDGE},
        "root": {"type": "object", "properties": {"x": EDGE, "parts": {"type": "array", "items": TEXT}}},
    },
    "required": ["nodes"],
}
GRAPHS = Catalog.build([listing("memory", tool("read", {}, (), GRAPH))])


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("read()['xyz']", "what read() gives has no key 'xyz'. It has nodes, by_name?, root?."),
        ("read()['nodes'][0]['title']", "an item of read()['nodes'] has no key 'title'. It has label, notes?."),
        ("read()['root']['y']", "read()['root'] has no key 'y'. It may have x, parts."),
        ("read()['root']['x']['id']", "a dict in what read() gives has no key 'id'. It may have source, kind."),
        ("read()['root']['x']['kind']['z']", "a dict in what read() gives has no key 'z'. It has label."),
    ],
)
async def test_a_wrong_key_is_told_with_the_place_of_its_dict_and_optional_keys_are_marked(
    code: str, expected: str
) -> None:
    """Without the place, two warnings about one result contradict each other."""
    assert await warnings(f"from servers.memory import *\n{code}", GRAPHS) == [f"2: {expected}"]


def observed(result: Any, calls: int) -> Observed:
    seen = Observed(1, shapes.of(result))
    for _ in range(calls - 1):
        seen = seen.merged(Observed(1, shapes.of(result)))
    return seen


async def test_a_key_that_was_never_observed_is_a_warning_that_says_how_often_was_looked() -> None:
    document = observed({"content": "text", "owner": "me"}, 14)
    catalog = Catalog.build(
        [listing("github", *GITHUB), listing("google_drive", *DRIVE)],
        observed=lambda _server, definition: document if definition.name == "get_document" else None,
    )
    code = "from servers.google_drive import get_document\nprint(get_document('x')['contents'])"
    assert await warnings(code, catalog) == [
        "2: 'contents' was not in what get_document() gave in 14 calls; did you mean 'content'? It has content, owner."
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


async def test_comments_in_a_program_switch_nothing_off() -> None:
    code = HEAD + "get_issue('a', 1)['titel']  # type: ignore  # ty: ignore"
    assert len(await errors("# ty: ignore\n# type: ignore\n" + code)) == 1


async def test_names_of_the_check_itself_mean_nothing_in_a_program() -> None:
    (error,) = await errors(HEAD + "_cm_any = 1\n_CmStr = 2\nget_issue('a', 1)['title']\nprint(_cm_pending)")
    assert error.startswith("5: name '_cm_pending' is not defined")


async def test_without_the_type_checker_our_own_part_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    checker = TypeChecker(seconds=1)
    checker._executable = None
    found = await checked(HEAD + "get_issue('a', nummer=1)\nget_issue('a', 1)['titel']", OFFICE, checker=checker)
    assert [finding.line for finding in found.errors] == [2]


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


async def test_an_attribute_of_files_on_a_result_that_may_hold_files_leads_to_them() -> None:
    part = {"type": "object", "properties": {"data": TEXT, "mimeType": TEXT}, "required": ["data", "mimeType"]}
    parts = {"type": "object", "properties": {"content": {"type": "array", "items": part}}, "required": ["content"]}
    catalog = Catalog.build([listing("media", tool("read", {}, gives=parts), tool("note", {}, gives=FILE_RESULT))])
    head = "from servers.media import *\n"
    assert await errors(f"{head}read().data", catalog) == [
        "2: what read() gives is a dict without attribute 'data'; a file that came with it is .files[0]. "
        "It has content."
    ]
    for code in ("note().data", "read().other", "read()['content'][0].size"):
        assert ".files" not in (await errors(head + code, catalog))[0], "control: no file is declared or meant there"


async def test_what_can_not_come_beside_a_result_is_found_where_it_is_certain() -> None:
    """Text is not kept beside a declared result, and what is within a result has nothing beside it."""
    inner = {"type": "object", "properties": {"one": FILE_RESULT}, "required": ["one"]}
    catalog = Catalog.build([listing("media", tool("read", {}, gives=FILE_RESULT), tool("deep", {}, gives=inner))])
    head = "from servers.media import read, deep\n"
    assert "what read() gives has no key 'text'" in (await errors(f"{head}read()['text']", catalog))[0]
    assert "without attribute 'files'" in (await errors(f"{head}deep()['one'].files", catalog))[0]
    assert await warnings(f"{head}read().text", catalog) == [
        "2: no text comes beside what read() gives, so .text is None at most. It has content."
    ], "it is None beside files"


PAGE: dict[str, Any] = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": ISSUE}, "total": {"type": "integer"}},
    "required": ["rows"],
}
TWO_LISTS = {**PAGE, "properties": {**PAGE["properties"], "columns": {"type": "array", "items": TEXT}}}
PAGED = Catalog.build(
    [
        listing(
            "shop",
            *(tool(name, {"query": TEXT}, [], gives) for name, gives in [("find", PAGE), ("find_two", TWO_LISTS)]),
            tool("get_item", {}, [], ISSUE),
        )
    ]
)
KEYS_ONLY = "find() gives a dict, so this loop gets its keys; loop over {}['rows']"


@pytest.mark.parametrize(
    ("code", "loops_over"),
    [
        ("for row in find(query='a'): print(row)", "find(…)"),
        ("found = find()\nfor row in found: print(row['title'])", "found"),
        ("found = find()\n[row['title'] for row in found]", "found"),
        ("found = find()\n[row.number for row in found]", "found"),
        ("found = find()\nfor row in found:\n    print(f\"{row['title']:>9}\")", "found"),
        ("async def f():\n    return [row['title'] for row in await find()]\nawait f()", "find(…)"),
        ("async def f():\n    found = await find()\n    return {row['number'] for row in found}\nawait f()", "found"),
    ],
)
async def test_a_loop_that_gets_keys_where_a_list_was_meant_is_told_the_list(code: str, loops_over: str) -> None:
    (line,) = await warnings(f"from servers.shop import *\n{code}", PAGED)
    assert line.endswith(KEYS_ONLY.format(loops_over))


@pytest.mark.parametrize(
    "code",
    [
        "for row in find()['rows']: print(row['title'])",
        "found = find()\nfor key in found: print(key, found[key])",
        "found = find()\nprint([key.upper() for key in found])",
        "found = find()\nfor row in found: print(row)\nfor row in found['rows']: print(row['title'])",
        "found = find()\nfound = found['rows']\nfor row in found: print(row['title'])",
        "found = find().get('rows')\nfor row in found: print(row['title'])",
        "for row in find_two(): print(row)",
        "for row in get_item(): print(row)",
        "for row in find.pages(): print(row['title'])",
        "found = find()\nfor key in found:\n    if key.startswith('ro'): print(found[key])",
        "for key in sorted(find()): print(key)",
    ],
)
async def test_a_loop_that_may_be_meant_is_not_reported(code: str) -> None:
    assert await warnings(f"from servers.shop import *\n{code}", PAGED) == []


def test_loops_within_loops_take_no_time_that_grows_with_their_square() -> None:
    """A hostile program of 2,000 characters is looked at on the event loop, larger ones in a thread."""

    def seconds(loops: int) -> float:
        code = f"from servers.shop import find\nr = find()\n[0 {'for x in r ' * loops}]"
        reading = read(code)
        assert reading is not None
        started = time.process_time()
        Findings(reading, PAGED).all()
        return time.process_time() - started

    assert min(seconds(2_000) for _ in range(2)) < 30 * min(seconds(200) for _ in range(3))
