"""Recognizes calls that failed on a path in /workspace, a folder of the sandbox that servers can't read."""

from __future__ import annotations

import re
from itertools import islice

from codemode_server.domain.ids import JsonValue
from codemode_server.gateway.received_keys import values_in
from codemode_server.text import clean_line

_MAX_VALUES = 1_000
_MAX_ERROR_CHARACTERS = 4_000
_MAX_PATH_CHARACTERS = 100
_PATH = re.compile(r"(?<![\w/.~-])/workspace(?![\w-])(?:/[^\s'\"`<>|;:,]*)?")


def message_on_path(title: str, arguments: JsonValue, failure: str) -> str | None:
    """The message for the model if a call of the tool `title` failed with an error that names such a path.

    The path is an argument or within one, as in a query: `select * from '/workspace/a.csv'`.
    """
    found = _PATH.search(failure[:_MAX_ERROR_CHARACTERS])
    if found is None:
        return None
    values = islice(values_in(arguments), _MAX_VALUES)
    if not any(isinstance(value, str) and found[0] in _PATH.findall(value) for value in values):
        return None
    path = clean_line(found[0], _MAX_PATH_CHARACTERS)
    return (
        f"{title} failed on {path!r}: servers do not see the programs' /workspace; "
        "read and write its files in the program, and pass their content"
    )
