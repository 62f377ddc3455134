"""Names that Python can't parse: a program with one is answered with the right name; any other syntax error is left to
Python's own message."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog

from .kit import TEXT, checked, errors, lines, listing, tool

MAIL = Catalog.build(
    [
        listing(
            "my-mail",
            tool("get-sum", {"a": TEXT}),
            tool("sum-up", {}),
            tool("sum_up", {}),
            tool("import", {"from": TEXT, "in": {"type": "string"}, "to": TEXT}),
            tool("search", {"query": TEXT}, ["query"]),
        )
    ]
)
HEAD = "from servers.my_mail import import_, search\n"
NAMES = {
    "from servers.my_mail import get-sum": "1: not valid Python; write: from servers.my_mail import get_sum",
    "from servers.my-mail import search, get-sum as add": (
        "1: not valid Python; write: from servers.my_mail import search, get_sum as add"
    ),
    "x = 1\nfrom servers.my_mail import (\n    search,\n    get-sum,\n)\n": (
        "2: not valid Python; write: from servers.my_mail import search, get_sum"
    ),
    "from servers.my_mail import import": "1: not valid Python; write: from servers.my_mail import import_",
    "from servers.my_mail import sum_up, sum-up": (
        "1: not valid Python; write: from servers.my_mail import sum_up, sum_up_qt3i"
    ),
    "from servers.my_mail import get-sun": '1: no tool "get-sun" in servers.my_mail; nearest: get_sum',
    "from servers.her-mail import search": '1: no server "her-mail"; there are: my_mail',
    HEAD + "import_(to='b', from='a')": "2: 'from' is a keyword of Python; write from_=… in import_()",
    HEAD + "import_.map([1], in = 'x')": "2: 'in' is a keyword of Python; write in_=… in import_()",
    HEAD + "x = [\n  search(class='a')\n]": (
        "3: 'class' is a keyword of Python, and search() has no such argument. It takes query."
    ),
}


@pytest.mark.parametrize("code", NAMES)
async def test_a_name_that_python_can_not_parse_is_answered_with_the_right_one(code: str) -> None:
    assert await errors(code, MAIL) == [NAMES[code]]


@pytest.mark.parametrize(
    "code",
    [
        "from servers.my_mail import search\nsearch(query='a'",
        "from servers.my_mail import search\nclass = 5",
        "from servers.my_mail import search\nprint(from='a')",
        "from servers.my_mail import search\nx = 'servers.my_mail import get-sum' +",
        "from servers.my_mail import search\n" + "(" * 5_000,
        "servers = '''\n```\n''' +",
        "# servers\nfrom my-mail import search",
        "from servers.my_mail import search\n'\0'",
    ],
)
async def test_another_syntax_error_is_left_to_python(code: str) -> None:
    result = await checked(code, MAIL)
    assert lines([*result.errors, *result.warnings]) == []
