"""Server entries in the form that hosts have them (`mcpServers`), turned into ours.

Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline, Gemini CLI and others agree on `command`, `args`, `env`
and `url`, and differ in the rest. What they say in other words is translated; what only concerns the host itself
(`alwaysAllow`, `icon`) is left out with a warning. A key that is nearly one of ours is a typing error here too.
"""

from __future__ import annotations

import re
from pathlib import Path

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems, nearest, printable

_THEIRS = frozenset({"timeoutMs", "toolsets", "enabledTools"})
"""Keys of hosts that look like ours, and are no typing errors."""
_SYNONYMS = {
    "serverUrl": "url",
    "httpUrl": "url",
    "environment": "env",
    "workingDirectory": "cwd",
    "includeTools": "include",
    "excludeTools": "exclude",
}
_STDIO, _HTTP = frozenset({"stdio", "local"}), frozenset({"http", "streamablehttp", "remote"})
_LONGEST_IN_SECONDS = 3_600
"""Some hosts give `timeout` in seconds, some in milliseconds; nobody waits longer than this for a call."""


def server_name(name: str) -> str:
    """A host's name for a server as one that is legal here: `My Notes` is `My-Notes`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or "server"


def translated(entry: Node, known: frozenset[str], problems: Problems, warnings: list[str], at: str) -> Node:
    """One entry with our keys only. `at` is the file, for warnings."""
    if not isinstance(entry.value, dict):
        return entry
    ours: dict[str, Node] = {}
    ignored: list[str] = []
    for key, node in entry.entries.items():
        name = _SYNONYMS.get(key, key)
        if key in ("type", "transport", "transportType"):
            transport = _transport(node, problems)
            if transport is not None:
                ours["transport"] = node.with_value(transport)
        elif key == "disabled":
            ours["enabled"] = _negated(node, problems)
        elif name in ("include", "exclude"):
            tools = ours.get("tools", Node({}, node.line, node.where))
            ours["tools"] = tools.with_value({**tools.entries, name: node})
        elif name == "timeout" and isinstance(node.value, (int, float)) and node.value > _LONGEST_IN_SECONDS:
            ours[name] = node.with_value(node.value / 1000)
            warnings.append(f"{at}:{node.line}: {node.where}: taken as milliseconds")
        elif name in known:
            ours[name] = node
        elif key in _THEIRS or not (meant := nearest(key, known, cutoff=0.8)):
            ignored.append(key)
        else:
            problems.add(node.line, node.where, f"unknown key; did you mean {meant!r}?")
    if ignored:
        names = ", ".join(repr(printable(key)) for key in ignored)
        warnings.append(f"{at}:{entry.line}: {entry.where}: ignored, since it concerns other hosts only: {names}")
    return entry.with_value(ours)


def starts_this_server(entry: Node) -> bool:
    """Whether an entry of a host's own file is codemode-server itself, which would then start itself without end."""
    command, args = entry.entries.get("command"), entry.entries.get("args")
    words = [command.text] if command else []
    given = [word.text for word in args.value] if args and isinstance(args.value, list) else []
    # A clone of ours that another server works on is no program; what comes first may be what a launcher starts.
    words += given[:1] + [word for word in given[1:] if not _is_mere_folder(word)]
    return any(re.fullmatch(r"(?:.*/)?codemode[-_]server(?:[@=\[].*)?", word) for word in words)


def _is_mere_folder(word: str) -> bool:
    """Whether it is the full path of a folder that Python could not run."""
    try:
        return word.startswith("/") and Path(word).is_dir() and not (Path(word) / "__main__.py").exists()
    except (OSError, ValueError):
        return False


def _transport(node: Node, problems: Problems) -> str | None:
    kind = re.sub(r"[-_ ]", "", node.text.casefold())
    if kind == "sse":
        return "sse"
    if kind in _HTTP:
        return "http"
    if kind not in _STDIO:
        problems.add(node.line, node.where, "must be one of 'stdio', 'http', 'sse'")
    return None


def _negated(node: Node, problems: Problems) -> Node:
    if not isinstance(node.value, bool):
        problems.add(node.line, node.where, "must be true or false")
        return node.with_value(False)
    return node.with_value(not node.value)
