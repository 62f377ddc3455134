"""Translates one server's entry from a host's format into ours.

Hosts agree on `command`, `args`, `env` and `url`, and differ in the rest. Other names for the same setting are
translated, settings of the host itself (`alwaysAllow`, `icon`) are ignored with a warning, and restrictions are kept
(`restrictions`). A key similar to one of ours is reported as a typing error.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from codemode_server.config.document import Node
from codemode_server.config.expansion import NotExpandable, expand, read_dotenv
from codemode_server.config.host_sign_in import SIGN_IN, oauth_section
from codemode_server.config.places import Sources, with_home
from codemode_server.config.problems import Problems, joined, nearest, printable
from codemode_server.config.restrictions import RESTRICTING, Restrictions
from codemode_server.settings import ServerSettings

Host: TypeAlias = Literal["any", "codex", "gemini", "goose", "opencode", "zed"]
"""The host whose file it is, if the same keys mean different things."""

_KNOWN = frozenset(name for name, field in ServerSettings.model_fields.items() if not field.exclude)
_HOST_ONLY_KEYS = frozenset({"toolsets", "startup_timeout_sec", "startup_timeout_ms"})
"""Keys of hosts that resemble ours but are not typing errors."""
_SYNONYMS = {
    "serverUrl": "url",
    "httpUrl": "url",
    "uri": "url",
    "cmd": "command",
    "environment": "env",
    "envs": "env",
    "http_headers": "headers",
    "workingDirectory": "cwd",
    "tool_timeout_sec": "timeout",
}
_MILLISECONDS = frozenset({"timeoutMs", "request_timeout_ms"})
_UNKNOWN_SIGN_IN = frozenset({"authProviderType"})
_SHELL_CHARACTERS = re.compile(r"[$`|&;<>()*?!~#\n]")
_VARIABLES = frozenset({"env_vars", "env_keys", "bearer_token_env_var", "env_http_headers"})
_STDIO, _HTTP = frozenset({"stdio", "local"}), frozenset({"http", "streamablehttp", "remote"})
_BUILT_IN = frozenset({"builtin", "platform", "inline_python", "frontend"})
_MAX_SECONDS = 3_600
"""Hosts write `timeout` in seconds or milliseconds; larger values are taken as milliseconds."""
_MAX_DESCRIPTION = 500


@dataclass(slots=True)
class Translation:
    """The translation of the entries of one file."""

    problems: Problems
    warnings: list[str]
    variables: Mapping[str, str]
    base_dir: Path
    sources: Sources
    from_env_files: list[tuple[str, str]] = field(default_factory=list)
    """Variables of each `envFile` with their values; `secrecy` decides which are secrets."""
    rules: list[dict[str, str]] = field(default_factory=list)
    """Permission rules for what a host asks about."""
    translated: set[str] = field(default_factory=set)
    """The names of servers whose entries were in a host's form."""

    def entry(self, name: str, entry: Node, host: Host) -> Node | None:
        """One entry with our keys only; none if it is left out. `name` is the server's here."""
        if not isinstance(entry.value, dict):
            return entry
        self.translated.add(name)
        members = _in_one_level(entry, host)
        if reason := _why_left_out(members, host):
            self.warn(entry, f"ignored: it {reason}")
            return None
        ours: dict[str, Node] = {}
        ignored: list[str] = []
        restrictions = Restrictions(self.problems)
        for key, node in members.items():
            if key in RESTRICTING:
                restrictions.add(key, node)
            elif key in SIGN_IN:
                self._oauth(node, members.get("scopes") if host == "codex" else None, ours, host)
            elif key == "scopes" and host == "codex":
                if not SIGN_IN & members.keys():
                    self._oauth(node, node, ours, host)
            elif key in _UNKNOWN_SIGN_IN:
                self._unknown_sign_in(node)
            elif key in _VARIABLES:
                self._named_variables(key, node, ours)
            elif key == "headersHelper" and isinstance(node.value, str):
                ours["headers_command"] = node.with_value(_without_shell(node.value))
            elif key == "envFile":
                self._env_file(node, ours)
            elif not self._field(key, node, ours, host):
                ignored.append(key)
        if not {"command", "url"} & ours.keys() and _is_off(members):
            self.warn(entry, "ignored: disabled and has no command or url")
            return None
        ours |= self._switch(members)
        if (tools := restrictions.as_tools(entry.line, joined(entry.where, "tools"))) is not None:
            ours["tools"] = tools
        reason = "The host that this entry was written for asks before it calls this tool."
        self.rules += [{"ask": f"{name}/{glob}", "reason": reason} for glob in restrictions.ask]
        if ignored:
            names = ", ".join(repr(printable(key)) for key in ignored)
            self.warn(entry, f"ignored, host-specific settings: {names}")
        return entry.with_value(ours)

    def _field(self, key: str, node: Node, ours: dict[str, Node], host: Host) -> bool:
        """Translates a field that we support; False if it only concerns the host."""
        name = _SYNONYMS.get(key, key)
        if key in ("type", "transport", "transportType"):
            transport = _transport(node, self.problems)
            if transport is not None:
                ours["transport"] = node.with_value(transport)
        elif key in ("disabled", "enabled"):
            pass  # handled together in `_switch`
        elif name == "timeout" or key in _MILLISECONDS:
            return self._timeout(key, node, ours, host)
        elif name == "description" and isinstance(node.value, str):
            ours[name] = node.with_value(node.value[:_MAX_DESCRIPTION])
        elif name in ("env", "headers") and isinstance(node.value, dict):
            before = ours[name].entries if name in ours else {}
            ours[name] = node.with_value({**before, **_in_our_variables(node, host).entries})
        elif name in _KNOWN:
            ours[name] = _in_our_variables(node, host)
            if key == "url" and host == "gemini":
                ours.setdefault("transport", Node("sse", node.line, node.where, "sse"))
        elif key in _HOST_ONLY_KEYS or not (meant := nearest(key, _KNOWN, cutoff=0.8)):
            return False
        else:
            self.problems.add(node.line, node.where, f"unknown key; did you mean {meant!r}?")
        return True

    def _timeout(self, key: str, node: Node, ours: dict[str, Node], host: Host) -> bool:
        if host == "opencode":  # opencode's `timeout` is for listing tools, not calls
            return False
        is_milliseconds = key in _MILLISECONDS or host == "gemini"
        if (
            isinstance(node.value, (int, float))
            and not isinstance(node.value, bool)
            and (is_milliseconds or node.value > _MAX_SECONDS)
        ):
            self.warn(node, "taken as milliseconds")
            node = node.with_value(node.value / 1000)
        ours["timeout"] = node
        return True

    def _switch(self, members: Mapping[str, Node]) -> dict[str, Node]:
        disabled, enabled = members.get("disabled"), members.get("enabled")
        if disabled is not None and not isinstance(disabled.value, bool):
            self.problems.add(disabled.line, disabled.where, "must be true or false")
        elif disabled is not None and (disabled.value or enabled is None):
            return {"enabled": disabled.with_value(not disabled.value)}
        return {} if enabled is None else {"enabled": enabled}

    def _oauth(self, node: Node, scopes: Node | None, ours: dict[str, Node], host: Host) -> None:
        section, ignored = oauth_section(node, scopes)
        if section is not None:
            ours["oauth"] = _in_our_variables(section, host)
        if ignored:
            self.warn(node, f"ignored: {', '.join(repr(printable(key)) for key in ignored)}")

    def _unknown_sign_in(self, node: Node) -> None:
        self.warn(
            node,
            "this way to sign in is not supported; try `codemode-server login`, or give a token in `headers`",
        )

    def _named_variables(self, key: str, node: Node, ours: dict[str, Node]) -> None:
        """Fields that name variables: Codex's, and what goose keeps in its keyring."""
        section = "env" if key in ("env_vars", "env_keys") else "headers"
        given: dict[str, str] = {}
        if key == "bearer_token_env_var" and isinstance(node.value, str):
            given = {"Authorization": f"Bearer ${{{node.value}}}"}
        elif isinstance(node.value, list):
            names = [item.entries.get("name", item).text for item in node.value]
            unset = [] if key == "env_keys" else [it for it in names if it not in self.variables]
            if unset:
                shown = ", ".join(map(printable, unset))
                self.warn(node, f"not taken over, since they are not set here: {shown}; add them to `env` if needed")
            given = {it: f"${{{it}}}" for it in names if it not in unset}
        elif isinstance(node.value, dict):
            given = {name: f"${{{variable.text}}}" for name, variable in node.entries.items()}
        else:
            self.problems.add(node.line, node.where, "must name environment variables")
        before = ours[section].entries if section in ours else {}
        added = {name: node.with_value(value) for name, value in given.items() if name not in before}
        ours[section] = Node({**before, **added}, node.line, node.where)

    def _env_file(self, node: Node, ours: dict[str, Node]) -> None:
        """The variables of the file, before those of the entry itself."""
        try:
            path = self.base_dir / with_home(expand(node.text, self.variables).text)
        except NotExpandable as error:
            self.problems.add(node.line, node.where, str(error))
            return
        if not os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises for a path that is too long
            self.problems.add(node.line, node.where, "there is no such file; correct the path or create the file")
            return
        found = read_dotenv(path, self.sources, self.warnings, str(path))
        self.from_env_files += found.items()
        own = ours["env"].entries if "env" in ours else {}
        from_file = replace(node, env_file=node.text)
        values = {name: from_file.with_value(value.replace("$", "$$")) for name, value in found.items()}
        ours["env"] = Node({**values, **own}, node.line, node.where)

    def warn(self, node: Node, message: str) -> None:
        self.warnings.append(f"{self.problems.name}:{node.line}: {node.where}: {message}")


def server_name(name: str) -> str:
    """A legal name from a host's name for a server: `My Notes` becomes `My-Notes`. `1`, `1-3` and `all` get a prefix,
    since these words choose rows when a person is asked which servers to take."""
    legal = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or "server"
    return f"server-{legal}"[:64] if re.fullmatch(r"[0-9-]+|all", legal, re.IGNORECASE) else legal


def starts_this_server(members: Mapping[str, Node]) -> bool:
    """Whether an entry in a host's file starts codemode-server itself, which would then start itself forever."""
    command, args = members.get("command") or members.get("cmd"), members.get("args")
    words = [command.text] if command else []
    given = [word.text for word in args.value] if args and isinstance(args.value, list) else []
    return names_this_server([*words, *given])


def names_this_server(words: Sequence[str]) -> bool:
    """Whether a command with its arguments starts codemode-server, by whatever launcher."""
    # A directory argument named codemode-server is not this program; the first argument may be, behind npx or uvx.
    candidates = [*words[:2], *(word for word in words[2:] if not _is_mere_folder(word))]
    pattern = r"(?:.*[/\\])?codemode[-_]server(?:\.exe|\.cmd)?(?:[@=\[].*)?"
    return any(re.fullmatch(pattern, word) for word in candidates)


def _in_one_level(entry: Node, host: Host) -> dict[str, Node]:
    """The members of an entry; flattens what some hosts nest or put into one list."""
    members = dict(entry.entries)
    for key in ("transport", "requestOptions"):
        if key in members and isinstance(members[key].value, dict):
            members = {**members.pop(key).entries, **members}
    command = members.get("command")
    if command is not None and isinstance(command.value, dict):
        members = {**members, **command.entries}
        members["command"] = command.entries.get("path", command)
        members.pop("path", None)
    elif command is not None and host == "opencode" and isinstance(command.value, list) and command.value:
        first, *rest = command.value
        members["command"] = first
        members["args"] = command.with_value(rest)
    if host in ("goose", "opencode", "zed"):
        members.pop("name", None)
    return members


def _why_left_out(members: Mapping[str, Node], host: Host) -> str:
    if starts_this_server(members):
        return "starts codemode-server itself"
    if host == "goose" and "type" in members and members["type"].value in _BUILT_IN:
        return "is a part of goose and no MCP server"
    if host == "zed" and "source" in members and members["source"].value == "extension":
        return "is an extension of Zed, which has no program to start"
    return ""


def _is_off(members: Mapping[str, Node]) -> bool:
    disabled, enabled = members.get("disabled"), members.get("enabled")
    return (disabled is not None and disabled.value is True) or (enabled is not None and enabled.value is False)


def _in_our_variables(node: Node, host: Host) -> Node:
    """The node with the host's variable syntax translated into ours."""
    if isinstance(node.value, dict):
        return node.with_value({key: _in_our_variables(child, host) for key, child in node.value.items()})
    if isinstance(node.value, list):
        return node.with_value([_in_our_variables(child, host) for child in node.value])
    if not isinstance(node.value, str):
        return node
    text = node.value
    if host == "codex":
        text = text.replace("$", "$$")
    elif host == "gemini":
        text = re.sub(r"\$([A-Za-z_]\w*)", r"${\1}", text)
    elif host == "opencode":
        text = re.sub(r"\$?\{env:([A-Za-z_]\w*)\}", r"${\1}", text.replace("$$", "$$$$"))
        text = re.sub(r"\{file:[^}]*\}", "${file:}", text)  # which can't be expanded, and says so
    return node if text == node.value else node.with_value(text)


def _without_shell(command: str) -> str:
    """A command that a host runs in a shell, as one that needs none. No variable in it is expanded here."""
    command = shlex.join(["sh", "-c", command]) if _SHELL_CHARACTERS.search(command) else command
    return command.replace("$", "$$")


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
