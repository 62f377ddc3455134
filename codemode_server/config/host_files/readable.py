"""Finds the strings in servers' entries that surely are no secrets, so that the diff of a host's file can show them.

Shown are flags, packages, paths of files and plain addresses, each only where it stands among the arguments or as the
address of a server. Whatever else stands there may be a secret, and whatever follows a flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from codemode_server.config.secrecy import Secrets
from codemode_server.known_tokens import has_known_token

_MAX_CHARACTERS = 2**20
_MAX_SECRETS = 200
"""Beyond these nothing is readable; no person's file has so many."""
_WORD = re.compile(r"\w{20,}")
_FLAG = re.compile(r"--[A-Za-z][A-Za-z-]*|-[A-Za-z]")
_LONE_FLAGS = frozenset({"-y", "--yes", "-i", "--rm", "-q", "--quiet"})
"""No value follows these."""
_SCOPED = re.compile(r"@[a-z0-9._-]+/[a-z0-9._-]+(@[a-z0-9.^~-]+)?")
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?(@[a-z0-9.^~-]+)?")
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})
_PATH = re.compile(r"(?:~|\.{1,2}|/(?:home|Users|opt|usr|tmp|var|srv|mnt|data|projects?))/[\w./ -]*")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?(?:/(?:mcp|sse|api|v\d|http|stream)?)*")
_ADDRESS_KEYS = frozenset({"url", "httpurl", "serverurl", "uri"})


def readable(servers: Any) -> frozenset[str]:
    """The strings of the entries that can be shown."""
    found = set(_harmless(servers))
    if sum(map(len, found)) > _MAX_CHARACTERS:
        return frozenset()
    secrets = Secrets()
    secrets.add_tree(servers)
    if len(secrets.values) + len(secrets.short) > _MAX_SECRETS:
        return frozenset()
    return frozenset(text for text in found - secrets.short if not _is_doubtful(text, secrets.values))


def _is_doubtful(text: str, secrets: set[str]) -> bool:
    """Whether there is a secret in the text, or a long word of letters and digits, which may be one."""
    words = _WORD.findall(text)
    is_key = any(not word.isdigit() and any(map(str.isdigit, word)) for word in words)
    return is_key or has_known_token(text) or any(secret in text for secret in secrets)


def _harmless(value: Any) -> Iterator[str]:
    for inner in value if isinstance(value, list) else ():
        yield from _harmless(inner)
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, list) and key in ("args", "command"):
            command = value.get("command")
            yield from _harmless_arguments(command if isinstance(command, str) else "", inner)
        elif isinstance(inner, str) and str(key).casefold() in _ADDRESS_KEYS and _ADDRESS.fullmatch(inner):
            yield inner
        else:
            yield from _harmless(inner)


def _harmless_arguments(command: str, arguments: list[Any]) -> Iterator[str]:
    """A command may also be the first of its arguments."""
    runs_package = command in _RUNNERS
    follows_flag = False
    for argument in arguments:
        if not isinstance(argument, str):
            continue
        if _FLAG.fullmatch(argument):
            yield argument
            follows_flag = argument not in _LONE_FLAGS
            continue
        forms = (
            (_SCOPED, _PATH, _ADDRESS, _PACKAGE) if runs_package and not follows_flag else (_SCOPED, _PATH, _ADDRESS)
        )
        if argument in _RUNNERS or any(form.fullmatch(argument) for form in forms):
            yield argument
        runs_package = argument in _RUNNERS
        follows_flag = False
