"""Reads command lines and addresses of servers: the entry that they give, and whether they start us."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError


def _is_address(word: str) -> bool:
    return re.match(r"https?://", word, re.IGNORECASE) is not None


def entry_of(words: Sequence[str], *, transport: str | None = None) -> dict[str, Plain]:
    """The entry for `https://…`, or for a program with its arguments. Raises `CodemodeError` if an address with
    arguments behind it, or a transport that does not fit."""
    first, *rest = words
    if _is_address(first):
        if rest:
            raise CodemodeError(f"an address has no arguments; remove {' '.join(rest)!r}")
        if transport == "stdio":
            raise CodemodeError("stdio needs a command, not an address")
        return {"url": first, **({"transport": "sse"} if transport == "sse" else {})}
    if transport in ("http", "sse"):
        raise CodemodeError(f"--transport {transport} needs an address that begins with https:// or http://")
    return {"command": first, **({"args": rest} if rest else {})}


def server_name(name: str) -> str:
    """A legal name from a host's name for a server: `My Notes` becomes `My-Notes`. `1`, `1-3` and `all` get a prefix,
    since these words choose rows when a person is asked which servers to take."""
    legal = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or "server"
    return f"server-{legal}"[:64] if re.fullmatch(r"[0-9-]+|all", legal, re.IGNORECASE) else legal


def names_this_server(words: Sequence[str]) -> bool:
    """True if a command with its arguments starts codemode-server, by any launcher."""
    # A directory argument named codemode-server is not this program; the first argument may be, behind npx or uvx.
    candidates = [*words[:2], *(word for word in words[2:] if not _is_mere_folder(word))]
    pattern = r"(?:.*[/\\])?codemode[-_]server(?:\.exe|\.cmd)?(?:[@=\[].*)?"
    return any(re.fullmatch(pattern, word) for word in candidates)


def command_words(entry: Mapping[str, Any]) -> list[str]:
    """The command of a host's entry with its arguments."""
    inner = entry.get("transport")
    members = inner if isinstance(inner, dict) else entry
    words: list[str] = []
    for key in ("command", "cmd", "args"):
        value = members.get(key)
        if isinstance(value, dict):  # of older files of Zed
            words += command_words({"command": value.get("path"), "args": value.get("args")})
        words += [value] if isinstance(value, str) else []
        words += [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    return words


def _is_mere_folder(word: str) -> bool:
    """True if it is the full path of a folder that Python could not run."""
    try:
        return word.startswith("/") and Path(word).is_dir() and not (Path(word) / "__main__.py").exists()
    except (OSError, ValueError):
        return False
