"""Makes a server's entry from an address or a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from codemode_server.config.host_entries import server_name
from codemode_server.config.yaml_writing import Plain
from codemode_server.domain.errors import CodemodeError

_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "node", "python", "python3", "deno", "bun", "docker", "uv"})
_WITH_VALUE = frozenset({"-e", "--env", "-v", "--volume", "--name", "--network", "--from", "--with", "-w", "--mount"})
_MEANINGLESS = frozenset({"run", "exec", "x", "dlx", "mcp", "server", "api", "www", "http", "sse", "stdio", "tool", ""})
_MEANINGLESS |= {"index", "main", "build", "dist", "src", "bin", "lib"}


def is_address(word: str) -> bool:
    return re.match(r"https?://", word, re.IGNORECASE) is not None


def entry_of(words: Sequence[str], *, transport: str | None = None) -> dict[str, Plain]:
    """The entry for `https://…`, or for a program with its arguments.

    Raises:
        CodemodeError: an address with arguments behind it, or a transport that does not fit.
    """
    first, *rest = words
    if is_address(first):
        if rest:
            raise CodemodeError(f"an address has no arguments; remove {' '.join(rest)!r}")
        if transport == "stdio":
            raise CodemodeError("stdio needs a command, not an address")
        return {"url": first, **({"transport": "sse"} if transport == "sse" else {})}
    if transport in ("http", "sse"):
        raise CodemodeError(f"--transport {transport} needs an address that begins with https:// or http://")
    return {"command": first, **({"args": rest} if rest else {})}


def name_of(words: Sequence[str]) -> str:
    """A name for the server: `everything` for `npx -y @modelcontextprotocol/server-everything`."""
    if is_address(words[0]):
        host = urlsplit(words[0]).hostname or ""
        labels = [it for it in host.split(".") if it not in _MEANINGLESS]
        is_number = not labels or labels[-1].isdigit() or ":" in host
        return "server" if is_number else server_name(labels[-2] if len(labels) > 2 else labels[0])
    program = next(_programs(words), words[0])
    for part in reversed(re.split(r"[/\\]", program)):
        name = re.sub(r"(?<!^)[@:=].*$|\.(?:js|mjs|py|exe|cmd|ts)$", "", part)
        name = re.sub(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-mcp|-server)$", "", name)
        if name not in _MEANINGLESS:
            return server_name(name)
    return "server"


def _programs(words: Sequence[str]) -> Iterator[str]:
    """The words that are neither runners nor options."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _WITH_VALUE
        elif re.split(r"[/\\]", word)[-1] not in _RUNNERS | _MEANINGLESS:
            yield word
