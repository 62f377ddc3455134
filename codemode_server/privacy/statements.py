"""Recognizes statements of SQL and of languages like it, among texts that may as well be prose. Pure.

What is surely SQL can have values escaped for it. What may be a statement can't, since prose with doubled apostrophes
would be wrong: there, a value that could end a string is refused.
"""

from __future__ import annotations

import re
from enum import Enum

from codemode_server.domain.privacy_tokens import TOKEN

_BEFORE = r"(?>\s+|--[^\n]*\n|/\*.*?\*/|#[^\n]*\n|[(;])*+"
"""White space, comments, brackets and empty statements before a statement."""
_SQL_WORDS = "select|insert|update|delete|replace|merge|with|call|exec|execute|create|begin"
_QUERY_WORDS = rf"{_SQL_WORDS}|explain|from|prepare|declare|set"
_OTHER_WORDS = "pragma|show|grant|revoke|table|do|match|refresh|truncate|drop|copy|use|analyze|vacuum"
_GRAPHQL = "query|mutation|subscription|fragment"
_FLAGS = re.IGNORECASE | re.DOTALL
QUERY_BEGINNING = re.compile(rf"{_BEFORE}(?:{_QUERY_WORDS})\b", _FLAGS)
"""How a text begins that is surely a query, if it selects something."""
GRAPHQL_BEGINNING = re.compile(rf"{_BEFORE}(?:(?:{_GRAPHQL})\b[^{{]{{0,1000}})?\{{\s*\w+\s*[\w({{:}}]", _FLAGS)
SELECTS = re.compile(r"\b(?:select|returning)\b", re.IGNORECASE)
"""Whether a text that may be a query of SQL has columns as its result."""
_SQL_BEGINNING = re.compile(rf"{_BEFORE}(?:explain\s+)?(?:{_SQL_WORDS}|values|alter)\b", _FLAGS)
_BEGINNING = re.compile(rf"{_BEFORE}(?:{_QUERY_WORDS}|{_OTHER_WORDS}|values|alter)\b", _FLAGS)

_NAME = r"[\w.\"`\[\]]+"
_TABLE = rf"(?:\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|{_NAME})"
_SQL = re.compile(
    rf"{_BEFORE}(?:explain\s+(?:query\s+plan\s+|analyze\s+)?)?"
    rf"(?:select\s+(?:distinct\s+|top\s+\d+\s+)?"
    rf"(?:\*|'|[-+]?\d|case\b|{_NAME}\s*(?:,|\(|\|\||as\b|from\b)|\w+\.\*)"
    rf"|insert\s+(?:or\s+\w+\s+|ignore\s+)?into\s+{_TABLE}\s*(?:\(|values\b|select\b)|insert\s+{_TABLE}\s+values\s*\("
    rf"|replace\s+into\s+{_TABLE}\s*\(|update\s+{_TABLE}(?:\s+(?:as\s+)?\w+)?\s+set\s|delete\s+from\s+{_TABLE}\s"
    rf"|merge\s+into\s|values\s*\(|create\s+(?:temp(?:orary)?\s+)?(?:table|view)\s+{_TABLE}\s+as\s+select\b"
    rf"|with\s+(?:recursive\s+)?{_NAME}\s*(?:\([^)]*\)\s*)?as\s*\(|call\s+{_NAME}\s*\(|exec(?:ute)?\s+{_NAME}\s+[@'\d])",
    _FLAGS,
)
"""The beginning of a statement; prose that begins with such a word goes on otherwise."""
_COMPARISON = re.compile(rf"(?:[=<>]|\blike|\bin\s*\()\s*n?['\"]?%?{TOKEN.pattern}", re.IGNORECASE)
_CLAUSE = re.compile(r"\s(?:from|set|where|into)\s", re.IGNORECASE)
"""With a comparison, these make a statement of a text that begins with a word of SQL."""
_ALIASED = re.compile(
    rf"{_BEFORE}select\s+(?:distinct\s+|top\s+\d+\s+)?{_NAME}\s+{_NAME}\s*(?:,|from\b)", re.IGNORECASE | re.DOTALL
)
"""A column with another name (`name n`) in a statement, or two words of prose."""
_LITERAL = r"(?:'[^']*+'|\"[^\"]*+\")"
_ARGUMENTS = rf"[\w\s.,@:*+-]*+(?:{_LITERAL}[\w\s.,@:*+-]*+)*"
_MEMBERS = rf"(?:\w+\s*:\s*(?:[\w.]+|{_LITERAL})\s*,\s*)*\w+\s*:\s*"
_CODE_BEFORE_STRING = re.compile(
    rf"(?:(?:\w|\bin\s|\bvalues\s)\({_ARGUMENTS}|[=<>]\s*|\blike\s+|\bidentified\s+by\s+|\{{\s*{_MEMBERS})"
    rf"n?(?:'[^']*?|\"[^\"]*?){TOKEN.pattern}",
    _FLAGS,
)
"""A token in a string, after what prose does not have there: a bracket of a function or list, or a comparison."""
_SQL_KEY = re.compile(r"sql|statement|stmt|soql")
_QUERY_KEYS = frozenset({"q", "command", "cmd", "expr", "script", "code", "cypher", "jql", "cql", "kql", "spl", "gql"})
_QUERY_KEY = re.compile(r"quer(?:y|ies)|filter|where|formula|predicate|condition|criteria|expression")
"""What names of arguments have in them that take a query or a condition: `where_clause`, `filterByFormula`."""


class Likeness(Enum):
    """How much a text is like a statement."""

    SQL = "sql"
    CODE = "code"
    """It begins like a statement, or is given as one, and has a string with a token where a statement has one."""
    QUERY = "query"
    """It may be a statement, or words to search for."""
    PROSE = "prose"


def likeness(text: str, key: str) -> Likeness:
    """What a text with tokens is; `key` is the argument that it is given in."""
    name = key.replace("_", "").casefold()
    is_sql_key = name == "query" or _SQL_KEY.search(name) is not None
    has_clause = _CLAUSE.search(text) is not None
    is_compared = has_clause and _COMPARISON.search(text) is not None
    if _SQL.match(text) or ((is_sql_key or is_compared) and _SQL_BEGINNING.match(text)):
        return Likeness.SQL
    is_query_key = is_sql_key or name in _QUERY_KEYS or _QUERY_KEY.search(name) is not None
    if (is_query_key or _BEGINNING.match(text)) and _CODE_BEFORE_STRING.search(text):
        return Likeness.CODE
    return Likeness.QUERY if is_query_key or (has_clause and _ALIASED.match(text)) else Likeness.PROSE
