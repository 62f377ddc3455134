"""Decides which keys of foreign data are names of fields, so that they may be shown, stored and traced. Pure.

A key in a result can be anything that somebody wrote: an address, an id, a credential, a sentence. A name that is a
value (`{"alice": 3}`) can't be recognised, so a key is short and has few words. Keys that an upstream declares in a
schema are its own text, for which `is_declared_name` is enough.
"""

from __future__ import annotations

import re
from functools import lru_cache

from codemode_server.support.known_tokens import begins_as_token

_MAX_CHARACTERS = 32
_MAX_WORDS = 4
_MAX_WORD_CHARACTERS = 24
_MAX_CONSONANTS = 7
"""Consonants in a row, of which random letters have more."""
_MAX_UNSPACED = 8
"""Characters of scripts that put no spaces between words."""
_MAX_DECLARED_CHARACTERS = 50
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_FIELD_NAME = re.compile(r"[^\W\d][\w.-]*|[$@][^\W\d][\w.-]*")
_LABEL = re.compile(r"[^\W\d][\w ()%#&/+.'-]*")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[^\W_]")
"""`user`, `Id` and `URL` of `userIdURL`."""
_ID = re.compile(
    r"(?i:[0-9a-f]{8,}|(?=[a-f]*[0-9])[0-9a-f]{7,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|(?=[A-Z]*[0-9])[A-Z0-9]{8,}|(?=.{10})[^\W_]*[0-9][^\W\d_]+[0-9][^\W_]*"
)
_RANDOM = re.compile(rf"[bcdfghjklmnpqrstvwxz]{{{_MAX_CONSONANTS + 1},}}")
_ENDS_AS_A_FILE_OR_HOST = re.compile(
    r"(?i:\.(com|org|net|io|dev|edu|gov|info|local|internal|co|us|uk|de|fr|eu|ch|jp|cn|in|br|au|ca|nl|app|ai"
    r"|py|js|ts|tsx|jsx|md|txt|json|yaml|yml|html|css|csv|pdf|png|jpg|jpeg|gif|svg|xml|toml|ini|sh|go|rs|java|c|h|cpp"
    r"|rb|php|sql|db|log|lock|zip|gz|docx?|xlsx?|pptx?))"
)
_ENDS_OF_HOSTS = frozenset({"com", "io", "net", "org"})


def is_field_name(key: str) -> bool:
    """True if a key reads like the name of a field that someone chose: an identifier of at most 4 words and 32
    characters, and no id, date, address, path, file or credential."""
    return len(key) <= _MAX_CHARACTERS and _is_field_name(key)


@lru_cache(maxsize=4_096)
def _is_field_name(key: str) -> bool:
    """The rows of a result, and those of the next one, have the same keys."""
    return _is_short(key) and _reads_like(_FIELD_NAME, key)


def is_label(key: str) -> bool:
    """True if a key reads like the heading of a column, `Order ID` or `Total (EUR)`; a person's name does as well."""
    return _is_short(key) and _reads_like(_LABEL, key) and ". " not in key


def is_declared_name(key: str) -> bool:
    """True if a key that an upstream declares reads like a name rather than an id, date, address, path or file."""
    return len(key) <= _MAX_DECLARED_CHARACTERS and _reads_like(_FIELD_NAME, key)


def _reads_like(pattern: re.Pattern[str], key: str) -> bool:
    if not pattern.fullmatch(key) or _ID.fullmatch(key):
        return False
    digits = len(_DIGIT.findall(key))
    if digits > 3 and (digits > 6 or digits * 10 >= 4 * len(key)):
        return False
    return "." not in key or not _ENDS_AS_A_FILE_OR_HOST.fullmatch(key[key.rindex(".") :])


def _is_short(key: str) -> bool:
    if (
        len(key) > _MAX_CHARACTERS  # first: keys of a megabyte took the patterns 0.1 s each
        or begins_as_token(key)
        or len(_UNSPACED.findall(key)) > _MAX_UNSPACED
    ):
        return False
    words = _words(key)
    if len(words) > _MAX_WORDS or (len(words) > 2 and words[-1] in _ENDS_OF_HOSTS):
        return False
    return max(map(len, words), default=0) <= _MAX_WORD_CHARACTERS and not _RANDOM.search(" ".join(words))


def _words(key: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(key[: 2 * _MAX_DECLARED_CHARACTERS]) if not word.isdigit()]
