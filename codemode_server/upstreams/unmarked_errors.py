"""Results that are errors and don't say so: `isError` is false and the value is `Database error: no such table`.

Only what is plainly an error counts: a short text that begins as one, a Python traceback, or an object that holds
nothing but an error. A log, a document or a commit message that speaks of errors is none. Pure.
"""

from __future__ import annotations

import re

from codemode_server.domain.ids import JsonValue
from codemode_server.support.redaction import NO_SECRETS, Redactor
from codemode_server.support.text import clean_line

_MAX_CHARACTERS = 500
_MAX_LINES = 3
_MAX_LINES_OF_KIND = 10
_MAX_TRACEBACK_CHARACTERS = 20_000
_MAX_SHOWN_CHARACTERS = 200
_KIND = (
    "api|authentication|client|connection|database|db|execution|fatal|file|http|internal|internal server|network|parse"
    "|permission|query|request|runtime|server|sql|sqlite|syntax|system|timeout|tool|unexpected|validation"
)
_LABEL = re.compile(
    r"(?:❌\s*)?(?:\[error\]|error:|error (?:[a-z]+ing|in|from|code|\d{3})\b[^\n:]{0,200}:) ?\S", re.IGNORECASE
)
"""`Error: …`, `Error executing query: …`"""
_KIND_LABEL = re.compile(rf"(?:{_KIND}) error: ?\S", re.IGNORECASE)
"""`Database error: …`; a text is less likely to begin so, and databases add the query and a mark below it."""
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.){0,5}[A-Z]\w*(?:Error|Exception)(?:: \S|\()")
"""`sqlite3.OperationalError: …`"""
_TRACEBACK = "Traceback (most recent call last):\n"
_ERROR_FIELDS = frozenset(
    {"error", "error_code", "error_type", "code", "status", "status_code"}
    | {"message", "details", "success", "ok", "hint"}
)


def unmarked_error(value: JsonValue, redactor: Redactor = NO_SECRETS) -> str | None:
    """The error that a result plainly is, on one line and masked; None for any other."""
    if isinstance(value, str):
        return _of_text(redactor.visible(value).strip()) if len(value) <= _MAX_TRACEBACK_CHARACTERS else None
    if isinstance(value, dict) and value.keys() <= _ERROR_FIELDS:
        return _of_object(value, redactor)
    return None


def _of_text(text: str) -> str | None:
    if text.startswith(_TRACEBACK) and len(text) <= _MAX_TRACEBACK_CHARACTERS:
        last = text.rsplit("\n", 1)[1]
        return clean_line(last, _MAX_SHOWN_CHARACTERS) if _EXCEPTION.match(last) else None
    lines = text.count("\n") + 1
    if len(text) > _MAX_CHARACTERS or lines > _MAX_LINES_OF_KIND:
        return None
    is_error = _KIND_LABEL.match(text) or (lines <= _MAX_LINES and (_LABEL.match(text) or _EXCEPTION.match(text)))
    return clean_line(text, _MAX_SHOWN_CHARACTERS) if is_error else None


def _of_object(value: dict[str, JsonValue], redactor: Redactor) -> str | None:
    error = value.get("error")
    if not error or not isinstance(error, str | dict) or value.get("success") is True or value.get("ok") is True:
        return None
    said = error if isinstance(error, str) else error.get("message")
    if not isinstance(said, str) or not said:
        return None
    return redactor.line(redactor.head(said, _MAX_TRACEBACK_CHARACTERS), _MAX_SHOWN_CHARACTERS)
