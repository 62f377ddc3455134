"""Translates servers from the form of any host into ours.

Hosts agree on `command`, `args`, `env` and `url`, and differ in the rest. Other names of the same setting are
translated (`hosts.SYNONYMS`), settings of the host itself are ignored with a warning. A tool that can't be called in
the host can't be called here: lists of included and excluded tools become ours, and a server with a restriction that is
not understood is disabled. Nothing in an entry (`autoApprove`, `alwaysAllow`, `trust`) grants a permission.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from codemode_server.config.expansion import NotExpandable, expand, read_dotenv
from codemode_server.config.file_edits import KeyPath
from codemode_server.config.hosts import SIGN_IN_SYNONYMS, SYNONYMS, Dialect
from codemode_server.config.new_server import command_words, names_this_server
from codemode_server.config.places import Sources, with_home
from codemode_server.config.problems import printable
from codemode_server.settings import ServerSettings

_KNOWN = frozenset(name for name, field in ServerSettings.model_fields.items() if not field.exclude)
_OAUTH = frozenset(get_args(ServerSettings.model_fields["oauth"].annotation)[0].model_fields)
_MILLISECONDS = frozenset({"timeoutMs", "request_timeout_ms"})
_MAX_SECONDS = 3_600
"""Hosts write `timeout` in seconds or milliseconds; larger values are taken as milliseconds."""
_MAX_DESCRIPTION = 500
_TRANSPORTS = {"sse": "sse", "http": "http", "streamablehttp": "http", "remote": "http", "stdio": "", "local": ""}
_BUILT_IN = frozenset({"builtin", "platform", "inline_python", "frontend"})
_SHELL_CHARACTERS = re.compile(r"[$`|&;<>()*?!~#\n]")
_RESTRICTS = re.compile(r"tool|allow|den(?:y|ied)|block|exclu|inclu|disab|permission|restrict|approv|polic", re.I)
"""Keys of an entry that may restrict what can be called."""
_GRANTS = frozenset({"autoApprove", "alwaysAllow", "auto_approve", "autoAllow", "trust", "toolsets", "alwaysLoad"})
_ANSWERS = {
    **dict.fromkeys(("always_deny", "deny"), "deny"),
    **dict.fromkeys(("always_ask", "ask", "prompt"), "ask"),
    **dict.fromkeys(("always_allow", "allow", "approve", "auto"), "allow"),
}
ASKS = "The host that this entry was written for asks before it calls this tool."


@dataclass(slots=True)
class TranslatedEntry:
    """One server's entry in our form."""

    members: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, KeyPath] = field(default_factory=dict)
    """Where the host's entry has what became a member."""
    asks: list[str] = field(default_factory=list)
    """Globs of the tools that the host asks about."""
    warnings: list[tuple[KeyPath, str]] = field(default_factory=list)
    problems: list[tuple[KeyPath, str]] = field(default_factory=list)
    is_unclear: bool = False
    """True if it has a restriction that is not understood."""
    left_out: str = ""
    """Why the entry is no server for us; empty if it is one."""
    env_file: str = ""
    """Its `envFile` as written, if there is one."""
    env_file_variables: dict[str, str] = field(default_factory=dict)

    def disable(self, key: KeyPath, what: str = "this restriction") -> None:
        """Switch the server off, since it can't be decided what may be called."""
        self.members["enabled"] = False
        self.is_unclear = True
        self.origins.setdefault("enabled", key)
        self.warnings.append((key, f"{what} is not understood, so the server is disabled: look at it, then enable it"))

    def exclude(self, globs: Sequence[str]) -> None:
        if globs:
            tools = self.members.setdefault("tools", {})
            tools["exclude"] = list(dict.fromkeys([*tools.get("exclude", []), *globs]))

    def include(self, globs: Sequence[str]) -> None:
        tools = self.members.setdefault("tools", {})
        before = tools.get("include", ["*"])
        both = globs if "*" in before else before if "*" in globs else [it for it in before if it in globs]
        tools["include"] = list(both)


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates the entries of one file."""

    variables: Mapping[str, str]
    base_dir: Path
    sources: Sources
    dotenv_warnings: list[str]

    def translated(self, entry: Mapping[str, Any], dialect: Dialect) -> TranslatedEntry:
        """The entry in our form."""
        result = TranslatedEntry()
        flat = _flattened(entry, dialect)
        values = {path[-1]: value for path, value in flat.items()}
        result.left_out = _why_left_out(values, dialect)
        if result.left_out:
            return result
        ignored: list[str] = []
        for path, value in flat.items():
            if value is not None and not self._field(result, path, value, values, dialect):
                ignored.append(path[-1])
        self._switch(result, values)
        is_off = result.members.get("enabled") is False and not result.is_unclear
        if is_off and not {"command", "url"} & result.members.keys():
            result.left_out = "disabled and has no command or url"
        if ignored:
            names = ", ".join(repr(printable(key)) for key in ignored)
            result.warnings.append(((), f"ignored, host-specific settings: {names}"))
        return result

    def _field(
        self, result: TranslatedEntry, path: KeyPath, value: Any, values: Mapping[str, Any], dialect: Dialect
    ) -> bool:
        """Translates one field; False if it only concerns the host."""
        key = path[-1]
        name: str = SYNONYMS.get(key, key)
        if name == "transport":
            kind = re.sub(r"[-_ ]", "", str(value).casefold())
            if kind not in _TRANSPORTS:
                result.problems.append((path, "must be one of 'stdio', 'http', 'sse'"))
            value = _TRANSPORTS.get(kind) or None
        elif key in ("disabled", "enabled"):
            return True
        elif name in ("include", "exclude", "tools") or key == "default_tools_approval_mode":
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
        elif name == "oauth" or (key == "scopes" and dialect == "codex" and not {"oauth", "auth"} & values.keys()):
            name = "oauth"
            value = self._oauth(result, path, value, values if dialect == "codex" else {})
        elif key == "authProviderType":
            message = "this way to sign in is not supported; try `codemode-server login`, or give a token in `headers`"
            result.warnings.append((path, message))
            return True
        elif key in ("env_vars", "env_keys", "bearer_token_env_var", "env_http_headers"):
            name = "env" if key.startswith(("env_vars", "env_keys")) else "headers"
            named = self._named_variables(result, path, value)
            before = result.members.get(name, {})
            result.members[name] = {**before, **{it: value for it, value in named.items() if it not in before}}
            return True
        elif key == "headersHelper" and isinstance(value, str):  # which the host runs in a shell
            command = shlex.join(["sh", "-c", value]) if _SHELL_CHARACTERS.search(value) else value
            result.members["headers_command"] = command.replace("$", "$$")
            return True
        elif key == "envFile":
            self._env_file(result, path, value)
            return True
        elif key == "scopes" and dialect == "codex":
            return True
        elif name not in _KNOWN:
            if key not in _GRANTS and _RESTRICTS.search(key):
                result.disable(path)
                return True
            return False
        if value is not None:
            value = _in_our_variables(value, dialect)
            if name in ("env", "headers") and isinstance(value, dict):
                value = {**result.members.get(name, {}), **value}
            result.members[name] = value
            result.origins[name] = path
            if key == "url" and dialect == "gemini":
                result.members.setdefault("transport", "sse")
        return True

    @staticmethod
    def _switch(result: TranslatedEntry, values: Mapping[str, Any]) -> None:
        for key, off in (("disabled", True), ("enabled", False)):
            value = values.get(key)
            if isinstance(value, bool):
                if value is off or (key == "enabled" and "enabled" not in result.members):
                    result.members["enabled"] = value is not off
                    result.origins["enabled"] = (key,)
            elif value is not None:
                result.disable((key,), "this switch")

    @staticmethod
    def _oauth(result: TranslatedEntry, path: KeyPath, value: Any, beside: Mapping[str, Any]) -> dict[str, Any] | None:
        ours: dict[str, Any] = {}
        ignored: list[str] = []
        for key, inner in (value if isinstance(value, dict) else {}).items():
            name = SIGN_IN_SYNONYMS.get(str(key), str(key))
            if name in _OAUTH:
                ours[name] = inner
            elif key == "callbackPort":  # Claude Code registers its redirect in this form
                ours["redirect_uri"] = f"http://localhost:{inner}/callback"
            elif key == "authServerMetadataUrl" and (issuer := _issuer_of(str(inner))):
                ours["issuer"] = issuer
            elif key != "enabled":
                ignored.append(printable(key))
        if "scopes" in beside:
            ours.setdefault("scopes", beside["scopes"])
        if isinstance(ours.get("scopes"), str):
            ours["scopes"] = ours["scopes"].split()
        if ignored:
            result.warnings.append((path, f"ignored: {', '.join(map(repr, ignored))}"))
        return ours or None

    def _named_variables(self, result: TranslatedEntry, path: KeyPath, value: Any) -> dict[str, str]:
        """Fields that name variables: Codex's, and what goose keeps in its keyring."""
        if path[-1] == "bearer_token_env_var" and isinstance(value, str):
            return {"Authorization": f"Bearer ${{{value}}}"}
        if isinstance(value, dict):
            return {name: f"${{{variable}}}" for name, variable in value.items()}
        if not isinstance(value, list):
            result.problems.append((path, "must name environment variables"))
            return {}
        names = [str(it.get("name", "") if isinstance(it, dict) else it) for it in value]
        unset = [] if path[-1] == "env_keys" else [it for it in names if it not in self.variables]
        if unset:
            shown = ", ".join(map(printable, unset))
            message = f"not taken over, since they are not set here: {shown}; add them to `env` if needed"
            result.warnings.append((path, message))
        return {it: f"${{{it}}}" for it in names if it not in unset}

    def _env_file(self, result: TranslatedEntry, path: KeyPath, value: Any) -> None:
        """The variables of the file, before those of the entry itself."""
        try:
            file = self.base_dir / with_home(expand(str(value), self.variables).text)
        except NotExpandable as error:
            result.problems.append((path, str(error)))
            return
        if not os.path.isfile(file):  # noqa: PTH113 - `Path.is_file` raises for a path that is too long
            result.problems.append((path, "there is no such file; correct the path or create the file"))
            return
        variables = read_dotenv(file, self.sources, self.dotenv_warnings, str(file))
        own = result.members.get("env", {})
        result.env_file = str(value)
        result.env_file_variables = dict(variables)
        result.members["env"] = {**{name: it.replace("$", "$$") for name, it in variables.items()}, **own}


def glob_covering(name: str) -> str:
    """A glob that matches at least what the host means by this name: of `run(rm -rf)`, all of `run`."""
    return re.sub(r"[\s/{}\[\]]", "?", re.sub(r"(?<=.)\(.*\)$", "", name)) or "?"


def glob_within(pattern: str, server: str) -> str | None:
    """The glob of a server's tools that a pattern over `<server>_<tool>` means, empty if it means none; None if that
    can't be said."""
    prefix = re.sub(r"[^A-Za-z0-9_-]", "_", server) + "_"
    pattern = pattern.replace("[", "?")
    if pattern.startswith(prefix):
        return glob_covering(pattern[len(prefix) :]).replace("_", "?")  # non-word characters of a tool are `_` there
    if fnmatchcase(prefix, pattern):
        return "*"
    head = re.split(r"[*?]", pattern)[0]
    return None if len(head) < len(pattern) and prefix.startswith(head) else ""


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


def _restrict(result: TranslatedEntry, path: KeyPath, name: str, value: Any) -> None:
    if name == "default_tools_approval_mode":
        _answer(result, path, "*", value)
    elif isinstance(value, list) and all(isinstance(it, str) for it in value):
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
    elif name == "tools" and isinstance(value, list) and all(isinstance(it, dict) for it in value):  # Claude Code's
        for it in value:
            if not isinstance(it.get("name"), str):
                result.disable(path)
            elif "permission_policy" in it:
                _answer(result, path, it["name"], it["permission_policy"])
    elif name == "tools" and isinstance(value, dict):
        for tool, setting in value.items():
            for key, inner in (setting if isinstance(setting, dict) else {"enabled": setting}).items():
                if key in ("enabled", "disabled") and isinstance(inner, bool):
                    result.exclude([glob_covering(tool)] if inner is (key == "disabled") else [])
                elif key == "approval_mode":
                    _answer(result, path, tool, inner)
                else:
                    result.disable((*path, tool))
    else:
        result.disable(path)


def _answer(result: TranslatedEntry, path: KeyPath, tool: str, answer: Any) -> None:
    match _ANSWERS.get(str(answer)):
        case "deny":
            result.exclude([glob_covering(tool)])
        case "ask":
            result.asks.append(glob_covering(tool))
        case None:
            result.disable(path)


def _exactly(name: str) -> str:
    """A glob that matches only what the host means: names are literal there, except a lone `*`."""
    name = re.sub(r"\(.*\)$", "", name)
    return name if name == "*" else re.sub(r"[*?\[]", r"[\g<0>]", name)


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


def _issuer_of(metadata_url: str) -> str:
    """The issuer whose metadata are at this address (RFC 8414, OpenID Connect Discovery); empty if it has another
    form."""
    well_known = r"/\.well-known/(?:oauth-authorization-server|openid-configuration)"
    if match := re.fullmatch(rf"(https?://[^/]+){well_known}(/.*)?", metadata_url):
        return match[1] + (match[2] or "")
    match = re.fullmatch(r"(https?://.+)/\.well-known/openid-configuration", metadata_url)
    return match[1] if match else ""


def names_in(value: Any) -> Iterator[str]:
    """The texts of a list; nothing of anything else."""
    yield from (it for it in value if isinstance(it, str)) if isinstance(value, list) else ()
