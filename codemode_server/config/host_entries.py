"""Translates servers from the form of any host into ours.

Hosts agree on `command`, `args`, `env` and `url`, and differ in the rest. Other names of the same setting are
translated (`hosts.SYNONYMS`), settings of the host itself are ignored with a warning. A tool that can't be called in
the host can't be called here: lists of included and excluded tools become ours, and a server with any other restriction
is disabled. Nothing in an entry (`autoApprove`, `alwaysAllow`, `trust`) grants a permission.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from codemode_server.config.file_edits import KeyPath
from codemode_server.config.hosts import SIGN_IN_SYNONYMS, SYNONYMS, Dialect
from codemode_server.config.problems import printable
from codemode_server.config.settings import ServerSettings
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError

_KNOWN = frozenset(name for name, field in ServerSettings.model_fields.items() if not field.exclude)
_OAUTH = frozenset(get_args(ServerSettings.model_fields["oauth"].annotation)[0].model_fields)
_MILLISECONDS = frozenset({"timeoutMs", "request_timeout_ms"})
_MAX_SECONDS = 3_600
"""Hosts write `timeout` in seconds or milliseconds; larger values are taken as milliseconds."""
_MAX_DESCRIPTION = 500
_TRANSPORTS = {"sse": "sse", "http": "http", "streamablehttp": "http", "remote": "http", "stdio": "", "local": ""}
_BUILT_IN = frozenset({"builtin", "platform", "inline_python", "frontend"})
_SHELL_CHARACTERS = re.compile(r"[$`|&;<>()*?!~#\n]")
_RESTRICTS = re.compile(
    r"tool|allow|den(?:y|ied)|block|exclu|inclu|disab|permission|restrict|approv|polic|confirm|whitelist|blacklist|only"
    r"|filter(?!Mapping$)|(?-i:(?<![A-Za-z])ask|Ask)",
    re.I,
)
"""Keys of an entry that may restrict what can be called. Copilot's `filterMapping` concerns the form of results."""
_GRANTS = frozenset({"autoApprove", "alwaysAllow", "auto_approve", "autoAllow", "trust", "toolsets", "alwaysLoad"})
_EXCLUDES = re.compile(r"(?!.*(?:allow|inclu|only|except|unless)).*(?:den(?:y|ied)|block|exclu|disab|blacklist)", re.I)
"""Keys whose empty list restricts nothing; one of what is allowed leaves nothing."""
_UNASKED: Mapping[str, tuple[object, ...]] = {"default_tools_approval_mode": ("allow", "approve", "auto")}
"""Values of a known host's key with which it restricts nothing."""


@dataclass(slots=True)
class TranslatedEntry:
    members: dict[str, Any] = field(default_factory=dict)
    warnings: list[tuple[KeyPath, str]] = field(default_factory=list)
    problems: list[tuple[KeyPath, str]] = field(default_factory=list)
    is_unclear: bool = False
    """True if it has a restriction that is not understood."""
    left_out: str = ""
    """Why the entry is no server for us; empty if it is one."""

    def disable(self, key: KeyPath, what: str = "this restriction") -> None:
        """Switch the server off, since it can't be decided what may be called."""
        self.members["enabled"] = False
        self.is_unclear = True
        self.warnings.append((key, f"{what} is not understood, so the server is disabled: look at it, then enable it"))

    def exclude(self, globs: Sequence[str]) -> None:
        if globs:
            tools = self.members.setdefault("tools", {})
            tools["exclude"] = list(dict.fromkeys([*tools.get("exclude", []), *globs]))

    def include(self, globs: Sequence[str]) -> None:
        tools = self.members.setdefault("tools", {})
        before = tools.get("include", ["*"])
        if "*" in before:
            tools["include"] = list(globs)
        elif "*" in globs:
            tools["include"] = list(before)
        else:
            tools["include"] = [glob for glob in before if glob in globs]


def translated(entry: Mapping[str, Any], dialect: Dialect, variables: Mapping[str, str]) -> TranslatedEntry:
    result = TranslatedEntry()
    flat = _flattened(entry, dialect)
    values = {path[-1]: value for path, value in flat.items()}
    result.left_out = _why_left_out(values, dialect)
    if result.left_out:
        return result
    ignored = [
        path[-1]
        for path, value in flat.items()
        if value is not None and not _field(result, path, value, dialect, variables)
    ]
    _switch(result, values)
    is_off = result.members.get("enabled") is False and not result.is_unclear
    if is_off and not {"command", "url"} & result.members.keys():
        result.left_out = "disabled and has no command or url"
    if ignored:
        names = ", ".join(repr(printable(key)) for key in ignored)
        result.warnings.append(((), f"ignored, host-specific settings: {names}"))
    return result


def _field(result: TranslatedEntry, path: KeyPath, value: Any, dialect: Dialect, variables: Mapping[str, str]) -> bool:
    """Translates one field; False if it only concerns the host."""
    key = path[-1]
    name: str = SYNONYMS.get(key, key)
    if name == "oauth" or (key == "scopes" and dialect == "codex"):
        value = _oauth(result, path, {"scopes": value} if key == "scopes" else value)
        name, value = "oauth", {**(result.members.get("oauth") or {}), **value} or None
    elif name == "transport":
        kind = re.sub(r"[-_ ]", "", str(value).casefold())
        if kind not in _TRANSPORTS:
            result.problems.append((path, "must be one of 'stdio', 'http', 'sse'"))
        value = _TRANSPORTS.get(kind) or None
    elif key in ("disabled", "enabled"):
        return True
    elif name in ("include", "exclude", "tools"):
        _restrict(result, path, name, value)
        return True
    elif name == "timeout":
        if dialect == "opencode":  # there it is for listing tools, not calls
            return False
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (key in _MILLISECONDS or dialect == "gemini" or value > _MAX_SECONDS):
            result.warnings.append((path, "taken as milliseconds"))
            value /= 1000
    elif name == "description" and isinstance(value, str):
        value = value[:_MAX_DESCRIPTION]
    elif key == "authProviderType":
        message = "this way to sign in is not supported; try `codemode-server login`, or give a token in `headers`"
        result.warnings.append((path, message))
        return True
    elif key in ("env_vars", "env_keys", "bearer_token_env_var", "env_http_headers"):
        name = "env" if key.startswith("env_vars") or key == "env_keys" else "headers"
        result.members[name] = {**_named_variables(result, path, value, variables), **result.members.get(name, {})}
        return True
    elif key == "headersHelper" and isinstance(value, str):  # which the host runs in a shell
        command = shlex.join(["sh", "-c", value]) if _SHELL_CHARACTERS.search(value) else value
        result.members["headers_command"] = command.replace("$", "$$")
        return True
    elif key == "envFile":
        result.warnings.append((path, "is not read; write its variables into .env, and name them in `env`"))
        return True
    elif name not in _KNOWN:
        harmless = _UNASKED.get(key, ([], {}) if _EXCLUDES.match(key) else ())
        if key not in _GRANTS and _RESTRICTS.search(key) and value not in harmless:
            result.disable(path)
            return True
        return False
    if value is not None:
        value = _in_our_variables(value, dialect)
        if name in ("env", "headers") and isinstance(value, dict):
            value = {**result.members.get(name, {}), **value}
        result.members[name] = value
        if key == "url" and dialect == "gemini":
            result.members.setdefault("transport", "sse")
    return True


def _named_variables(
    result: TranslatedEntry, path: KeyPath, value: Any, variables: Mapping[str, str]
) -> dict[str, str]:
    """Fields that name variables: Codex's, and what goose keeps in its keyring."""
    if path[-1] == "bearer_token_env_var" and isinstance(value, str):
        return {"Authorization": f"Bearer ${{{value}}}"}
    if isinstance(value, dict):
        return {name: f"${{{variable}}}" for name, variable in value.items()}
    if not isinstance(value, list):
        result.problems.append((path, "must name environment variables"))
        return {}
    names = [str(it.get("name", "") if isinstance(it, dict) else it) for it in value]
    unset = [] if path[-1] == "env_keys" else [it for it in names if it not in variables]
    if unset:
        shown = ", ".join(map(printable, unset))
        message = f"not taken over, since they are not set here: {shown}; add them to `env` if needed"
        result.warnings.append((path, message))
    return {it: f"${{{it}}}" for it in names if it not in unset}


def glob_covering(name: str) -> str:
    """A glob that matches at least what the host means by this name: of `run(rm -rf)`, all of `run`."""
    return re.sub(r"[\s/{}\[\]]", "?", re.sub(r"(?<=.)\(.*\)$", "", name)) or "?"


def names_in(value: Any) -> Iterator[str]:
    """The texts of a list; nothing of anything else."""
    yield from (it for it in value if isinstance(it, str)) if isinstance(value, list) else ()


def _flattened(entry: Mapping[str, Any], dialect: Dialect) -> dict[KeyPath, Any]:
    """The members of an entry by their paths, without the levels and lists that only some hosts have."""
    flat: dict[KeyPath, Any] = {}
    for key, value in entry.items():
        if key in ("transport", "requestOptions", "command") and isinstance(value, dict):
            flat |= {(key, name): it for name, it in value.items()}
        elif key == "command" and dialect == "opencode" and isinstance(value, list) and value:
            flat |= {("command",): value[0], ("args",): value[1:]}
        elif key != "name" or dialect not in ("goose", "opencode", "zed"):
            flat[key,] = value
    if ("command", "path") in flat:  # Zed
        flat["command",] = flat.pop(("command", "path"))
    return flat


def _why_left_out(values: Mapping[str, Any], dialect: Dialect) -> str:
    if names_this_server(command_words(values)):
        return "starts codemode-server itself"
    if dialect == "goose" and values.get("type") in _BUILT_IN:
        return "is a part of goose and no MCP server"
    if dialect == "zed" and values.get("source") == "extension":
        return "is an extension of Zed, which has no program to start"
    return ""


def _switch(result: TranslatedEntry, values: Mapping[str, Any]) -> None:
    for key, off in (("disabled", True), ("enabled", False)):
        value = values.get(key)
        if isinstance(value, bool):
            if value is off or (key == "enabled" and "enabled" not in result.members):
                result.members["enabled"] = value is not off
        elif value is not None:
            result.disable((key,), "this switch")


def _restrict(result: TranslatedEntry, path: KeyPath, name: str, value: Any) -> None:
    if isinstance(value, list) and all(isinstance(it, str) for it in value):
        if name == "exclude":
            result.exclude([glob_covering(it) for it in value])
        elif value or path[-1] != "available_tools":  # goose means all tools by none
            result.include([_exactly(it) for it in value])
    elif name == "tools" and isinstance(value, dict) and value.keys() <= {"include", "exclude"}:
        for key, globs in value.items():
            if isinstance(globs, list) and all(isinstance(it, str) for it in globs):
                (result.include if key == "include" else result.exclude)(globs)
            elif globs is not None:
                result.disable((*path, key))
    elif name == "tools" and isinstance(value, dict) and all(isinstance(it, bool) for it in value.values()):
        result.exclude([glob_covering(tool) for tool, is_on in value.items() if not is_on])
    else:
        result.disable(path)


def _exactly(name: str) -> str:
    """A glob that matches only what the host means: names are literal there, except a lone `*`."""
    name = re.sub(r"\(.*\)$", "", name)
    return name if name == "*" else re.sub(r"[*?\[]", r"[\g<0>]", name)


def _oauth(result: TranslatedEntry, path: KeyPath, value: Any) -> dict[str, Any]:
    ours: dict[str, Any] = {}
    ignored: list[str] = []
    for key, inner in (value if isinstance(value, dict) else {}).items():
        name: str = SIGN_IN_SYNONYMS.get(str(key), str(key))
        if name in _OAUTH:
            ours[name] = inner.split() if name == "scopes" and isinstance(inner, str) else inner
        elif key == "callbackPort":  # Claude Code registers its redirect in this form
            ours["redirect_uri"] = f"http://localhost:{inner}/callback"
        elif key != "enabled":
            ignored.append(printable(key))
    if ignored:
        result.warnings.append((path, f"ignored: {', '.join(map(repr, ignored))}"))
    return ours


def _in_our_variables(value: Any, dialect: Dialect) -> Any:
    """The value with the host's variable syntax translated into ours."""
    if isinstance(value, dict):
        return {key: _in_our_variables(inner, dialect) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_our_variables(inner, dialect) for inner in value]
    if not isinstance(value, str):
        return value
    if dialect == "codex":
        return value.replace("$", "$$")
    if dialect == "gemini":
        return re.sub(r"\$([A-Za-z_]\w*)", r"${\1}", value)
    if dialect == "opencode":
        value = re.sub(r"\$?\{env:([A-Za-z_]\w*)\}", r"${\1}", value.replace("$$", "$$$$"))
        return re.sub(r"\{file:[^}]*\}", "${file:}", value)  # which can't be expanded, and says so
    return value


def entry_of(words: Sequence[str], *, transport: str | None = None, cwd: str | None = None) -> dict[str, Plain]:
    """The entry for `https://…`, or for a program with its arguments; relative paths are those of the current folder.
    Raises `CodemodeError` if an address has arguments, a transport does not fit, or one word is no program's name."""
    first, *rest = words
    if re.match(r"https?://", first, re.IGNORECASE):
        if rest:
            raise CodemodeError(f"an address has no arguments; remove {' '.join(rest)!r}")
        if transport == "stdio":
            raise CodemodeError("stdio needs a command, not an address")
        if cwd is not None:
            raise CodemodeError("cwd is for servers with a command only")
        return {"url": first, **({"transport": "sse"} if transport == "sse" else {})}
    if "://" in first:
        raise CodemodeError(f"{first!r}: an address begins with http:// or https://")
    if transport in ("http", "sse"):
        raise CodemodeError(f"--transport {transport} needs an address that begins with https:// or http://")
    if not rest and shutil.which(first) is None:
        if len(inner := first.split()) > 1:
            raise CodemodeError(f"{first!r} is one word; write the command without quotes, behind `--`: -- {first}")
        if re.match(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/|$)", inner[0] if inner else ""):
            raise CodemodeError(f"{first!r} is no program here; an address begins with a scheme: https://{first}")
    if "/" in first:
        first = _absolute(first)
    if cwd is None:
        rest = [_absolute(it) if _is_path_here(it) else it for it in rest]
    entry: dict[str, Plain] = {"command": first, **({"args": rest} if rest else {})}
    return entry if cwd is None else {**entry, "cwd": _absolute(cwd)}


def _absolute(path: str) -> str:
    """The path, absolute unless it begins with `~`: the server resolves others against the folder of its file."""
    return path if path.startswith("~") else os.path.abspath(path)  # noqa: PTH100 - links stay


def _is_path_here(word: str) -> bool:
    """True if a word is the relative path of something that exists, or is in a folder that does, and not likely to be
    anything else."""
    looks_like_path = "/" in word or word in (".", "..") or Path(word).suffix != ""
    places = (word, os.path.dirname(word))  # noqa: PTH120 - any word is legal here
    return looks_like_path and not word.startswith(("-", "/", "~")) and any(map(os.path.exists, places))


def server_name(name: str) -> str:
    """A legal name from a host's name for a server: `My Notes` becomes `My-Notes`. `1`, `1-3` and `all` get a prefix,
    since these words choose rows when a person is asked which servers to take."""
    legal = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or "server"
    return f"server-{legal}"[:64] if re.fullmatch(r"[0-9-]+|all", legal, re.IGNORECASE) else legal


def names_this_server(words: Sequence[str]) -> bool:
    """True if a command with its arguments starts codemode-server, by any launcher."""
    # A directory argument named codemode-server is not this program; the first argument may be, behind npx or uvx.
    is_folder = [it.startswith("/") and os.path.isdir(it) for it in words]  # noqa: PTH112 - any word is legal here
    candidates = [word for number, word in enumerate(words) if number < 2 or not is_folder[number]]
    pattern = r"(?:.*[/\\])?codemode[-_]server(?:\.exe|\.cmd)?(?:[@=\[].*)?"
    return any(re.fullmatch(pattern, word) for word in candidates)


def command_words(entry: Mapping[str, Any]) -> list[str]:
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
