"""Finds the strings in servers' entries that are no secrets, so that the diff of a host's file can show them.

Values of environments, headers and sign-ins are never among them, whatever their names are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from codemode_server.config.literal_secrets import has_known_token
from codemode_server.config.secrecy import Secrets

_PRIVATE = frozenset({"env", "environment", "envs", "headers", "http_headers", "requestOptions", "oauth", "auth"})
_MAX_CHARACTERS = 2**20
_MAX_SECRETS = 200
"""Beyond these nothing is readable; no person's file has so many."""
_WORD = re.compile(r"\w{20,}")


def readable(servers: Any) -> frozenset[str]:
    """The strings of the entries that can be shown."""
    found = {text for text, is_private in _strings(servers) if not is_private}
    private = {text for text, is_private in _strings(servers) if is_private}
    if sum(map(len, found)) > _MAX_CHARACTERS:
        return frozenset()
    secrets = Secrets()
    secrets.add_tree(servers)
    if len(secrets.values) + len(secrets.short) > _MAX_SECRETS:
        return frozenset()
    return frozenset(text for text in found - private - secrets.short if not _is_doubtful(text, secrets.values))


def _is_doubtful(text: str, secrets: set[str]) -> bool:
    """Whether there is a secret in the text, or a long word of letters and digits, which may be one."""
    words = _WORD.findall(text)
    is_key = any(not word.isdigit() and any(map(str.isdigit, word)) for word in words)
    return is_key or has_known_token(text) or any(secret in text for secret in secrets)


def _strings(value: Any, *, is_private: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(value, str):
        yield value, is_private
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from _strings(inner, is_private=is_private or key in _PRIVATE)
    for inner in value if isinstance(value, list) else ():
        yield from _strings(inner, is_private=is_private)
