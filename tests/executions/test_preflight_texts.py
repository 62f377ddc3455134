"""Warnings about results that hold a text and are used as its lines: the program runs, and its answer is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.catalog import shapes
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.observed import Observed

from .kit import TEXT, listing, lone, tool, warnings

CONTENT: dict[str, Any] = {"type": "object", "properties": {"content": TEXT}, "required": ["content"]}
VALUES = {"values": {"type": "array", "items": {"type": "array"}}, "range": TEXT}
FILES = Catalog.build(
    [
        listing(
            "files",
            tool("read_text_file", {"path": TEXT}, [], CONTENT | {"additionalProperties": False}),
            tool("read_page", {}, [], CONTENT),
            tool("get_user", {}, [], {"type": "object", "properties": {"name": TEXT, "mail": TEXT}}),
            tool("read_range", {}, [], {"type": "object", "properties": VALUES}),
            tool("git_log", {}),
            tool("git_show", {}),
            tool("run", {}, [], lone(TEXT)),
        )
    ],
    observed=lambda _server, definition: Observed(3, shapes.of("a\nb")) if definition.name == "git_log" else None,
)
HEAD = "import csv\nfrom servers.files import *\n"
KEYS = "read_text_file() gives a dict, so this loop gets its keys; loop over {}['content'].splitlines()"
CALL = "read_text_file(…)"
CHARACTERS = "'content' of read_text_file() is a text, so this loop gets its characters; loop over {}.splitlines()"
LOG = "git_log() gives a text, so this loop gets its characters; loop over {}.splitlines()"
ROWS = "read_range() gives a dict, so this loop gets its keys; loop over {}['values']"
MEMBER = "read_text_file() gives a dict, so this tests its keys; write … {} {}['content']"
READER = "read_text_file() gives a dict, so {0} gets its keys; write {0}(r['content'].splitlines())"

MISREAD = [
    ("for line in read_text_file(path='a'): print(line)", KEYS.format(CALL)),
    ("r = read_text_file()\nfor line in r: print(line)", KEYS.format("r")),
    ("r = read_text_file()\nfor i, line in enumerate(r, 1): print(i, line)", KEYS.format("r")),
    ("r = read_text_file()\nfor x in r:\n    if 'ERROR' in x: print(x)", KEYS.format("r")),
    ("r = read_text_file()\n[x.split(',') for x in r]", KEYS.format("r")),
    ("async def f():\n    return [x for x in await read_text_file()]\nawait f()", KEYS.format(CALL)),
    ("r = read_text_file()\nsum('ERROR' in x for x in r['content'])", CHARACTERS.format("r['content']")),
    ("r = read_text_file()\nfor ch in r.get('content'): ch.startswith('## ')", CHARACTERS.format("r['content']")),
    ("t = read_text_file()['content']\nfor line in t: print(line.strip())", CHARACTERS.format("t")),
    ("log = git_log()\nfor c in log:\n    if c.startswith('Message:'): print(c)", LOG.format("log")),
    ("[c for c in git_log() if c.startswith(('Message:', 'Date:'))]", LOG.format("git_log(…)")),
    ("for row in read_range(): print(row)", ROWS.format("read_range(…)")),
    ("r = read_range()\nprint([row[0] for row in r])", ROWS.format("r")),
    ("'budget.xlsx' in read_text_file()", MEMBER.format("in", CALL)),
    ("r = read_text_file()\nif 'budget' not in r: print('none')", MEMBER.format("not in", "r")),
    ("r = read_text_file()\n[name for name in ['a.txt', 'b.txt'] if name in r]", MEMBER.format("in", "r")),
    ("r = read_text_file()\nlist(csv.DictReader(r))", READER.format("csv.DictReader")),
    ("r = read_text_file()\nfrom csv import reader\nlist(reader(r, delimiter=';'))", READER.format("reader")),
]


@pytest.mark.parametrize(("code", "expected"), MISREAD)
async def test_a_result_that_is_used_as_the_lines_of_its_text_is_told_the_text(code: str, expected: str) -> None:
    (line,) = await warnings(HEAD + code, FILES)
    assert line.partition(": ")[2] == expected


@pytest.mark.parametrize(
    "code",
    [
        "r = read_text_file()\nfor k in r: print(k, r[k])",
        "r = read_text_file()\nfor line in r: print(line, r.get(line))",
        "r = read_text_file()\nprint([k for k in r], sorted(r), list(r))",
        "r = read_text_file()\nfor k, v in r.items(): print(k, v)",
        "for line in read_text_file()['content'].splitlines(): print(line)",
        "r = read_text_file()\nr = r['content'].splitlines()\nfor line in r: print(line)",
        "r = read_text_file()\nif isinstance(r, str):\n    for line in r: print(line)",
        "r = read_text_file()\nlist(csv.DictReader(r['content'].splitlines()))",
        "t = read_text_file()['content']\nn = {}\nfor ch in t: n[ch] = n.get(ch, 0) + 1",
        "t = read_text_file()['content']\nsum(1 for c in t if c == '\\n' or c in 'aeiou' or c.startswith('a'))",
        "t = read_text_file()['content']\n[w for ch in t for w in ['ab', 'cd'] if w.startswith('ab')]",
        "t = read_text_file()['content']\n'ERROR' in t",
        "log = git_log()\nprint(''.join(c for c in log if c.isalnum()), 'ERROR' in log)",
        "from collections import Counter\nCounter(git_log())",
        "r = read_text_file()\nif 'error' in r: raise ValueError('x')",
        "r = read_text_file()\n'content' in r",
        "r = read_page()\n'title' in r",
        "r = read_page()\nfor key in ('text', 'content'):\n    if key in r: print(r[key])",
        "r = get_user()\nfor line in r: print(line)",
        "r = get_user()\n'a b' in r",
        "for line in git_show(): print(line)",
        "for line in run(): print(line)",
        "r = read_range()\nfor key in r: print(key, r[key])",
    ],
)
async def test_a_use_that_may_be_meant_or_a_result_that_may_be_something_else_is_not_reported(code: str) -> None:
    assert await warnings(HEAD + code, FILES) == []
