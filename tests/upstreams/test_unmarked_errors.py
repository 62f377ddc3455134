"""Which successful results are plainly errors. The texts are what real servers answer, and files and logs that only
speak of errors."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.unmarked_errors import unmarked_error

TRACEBACK = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nKeyError: 'x'"


@pytest.mark.parametrize(
    "value",
    [
        "Database error: no such table: orders",
        'Database error: Parser Error: syntax error at or near "selec"\n\nLINE 1: selec\n        ^^^^^',
        "Error: Access denied - path outside allowed directories",
        "error: pathspec 'x' did not match any file(s) known to git",
        "[ERROR] connection refused",
        "Error executing query: near 'SELEC': syntax error",
        "Error reading file /tmp/a.txt: ENOENT: no such file or directory",
        "sqlite3.OperationalError: no such column: total",
        "ValueError: could not convert string to float: 'a'",
        TRACEBACK,
        {"error": "Presentation not found"},
        {"success": False, "error": {"message": "Presentation not found"}},
        {"status": "error", "error": "no such board", "code": 404},
    ],
)
def test_what_is_plainly_an_error_is_one(value: Any) -> None:
    found = unmarked_error(value)
    assert found is not None
    assert "\n" not in found


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Errors: a guide to handling them",
        "# Error: the word\n\nA document on what `Error:` means.\n\nMore of it.\n\nAnd more.",
        "Error: how it came about\n\nIt began on Monday.\n\nThen it ended.\n",
        "commit 1f3\nAuthor: A\n\n    Error: mend the message\n",
        "2026-11-22 10:00 ERROR disk is full\n2026-11-22 10:01 INFO disk is free\n",
        "ERROR 10:00 disk full\nERROR 10:01 disk full\nERROR 10:02 disk full\nERROR 10:03 disk full",
        "Error: " + "x" * 600,
        "class ParseError(Exception):\n    pass",
        "TypeError is raised when a value has the wrong type.",
        "def f():\n    # Traceback (most recent call last):\n    pass",
        "Traceback (most recent call last):\n\nis how a report in Python begins. A reader skips it.",
        {"error": None, "message": "done"},
        {"success": True, "error": "ignored"},
        {"error": "rate", "series": [1, 2]},
        {"status": "error"},
        {"message": "Error: x"},
        ["Error: x"],
        3,
        None,
    ],
)
def test_what_only_speaks_of_errors_is_none(value: Any) -> None:
    assert unmarked_error(value) is None


@pytest.mark.parametrize("before", range(160, 200, 7))
def test_nothing_of_a_secret_is_left_where_the_text_is_cut(before: int) -> None:
    """Not of one either that has characters without width in it."""
    secret, padding = "tok-Z7kQ9xw41LmN0pR2", ("word " * before)[:before]
    for written in (secret, f"{secret[:10]}\u200b{secret[10:]}"):
        for value in (f"Error: {padding}{written}", {"error": padding + written}):
            assert "tok" not in (unmarked_error(value, Redactor([secret])) or "")
            assert "word" in (unmarked_error(value, Redactor([secret])) or ""), "control"
