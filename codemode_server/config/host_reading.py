"""Reads servers from the files of hosts, whose forms are recognised by content, for an import. The files are untrusted:
one that is broken or huge is named, and harms no other one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codemode_server.config import file_edits
from codemode_server.config.file_edits import NotEditable
from codemode_server.config.host_entries import TranslatedEntry, glob_covering, names_in, server_name, translated
from codemode_server.config.hosts import SECTIONS, Dialect, HostPlace, Scope, System
from codemode_server.config.places import MAX_BYTES
from codemode_server.config.problems import joined, printable
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import SettingsError
from codemode_server.support.untrusted_files import read_regular

MAX_HOST_FILE_BYTES = 64 * 2**20
"""Claude Code keeps its history in the same file."""
_ORDER = (
    *("command", "args", "env", "cwd", "url", "transport", "headers", "headers_command", "oauth"),
    *("timeout", "protocol", "description", "tools", "enabled"),
)
"""The settings that are taken over. Others give a server more than its host did, so the person has to add them."""
_TEXTS = frozenset({"args", "env", "headers"})
_SELECTORS = frozenset({"command", "url", "serverUrl", "httpUrl"})
_OF_EDITOR = re.compile(r"\$\{(input|command|keyring|config|file):([^}]*)\}")
_UNSET = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_]\w*)\}")
_GEMINI_ENTRY = frozenset({"httpUrl", "trust", "targetAudience", "targetServiceAccount", "authProviderType"})
_GEMINI_FILE = frozenset({"mcp", "security", "selectedAuthType", "general", "ui"})
"""Keys that only Gemini CLI and Qwen Code write. There a `url` without a `type` is SSE, and `$NAME` is a variable."""


@dataclass(slots=True)
class FoundServer:
    """One server in a host's file, in our form with variables."""

    name: str
    entry: dict[str, Plain]
    source: str
    host: str
    """Its id; empty if the host is unknown."""
    scope: Scope
    """`project` if somebody else may have written the file."""
    project: str = ""
    is_unclear: bool = False
    """True if it has a restriction that is not understood, and so must stay disabled."""
    name_there: str = ""
    folder: str = ""
    """The folder that Claude Code's own file has the server for; empty for all others."""

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False

    def variables(self) -> list[str]:
        """The variables without a default in the entry."""
        return list(dict.fromkeys(_UNSET.findall(json.dumps(self.entry))))


@dataclass(slots=True)
class SourceServers:
    source: str
    host: str
    scope: Scope
    path: Path
    environ: Mapping[str, str]
    project: Path | None = None
    folder: str = ""
    """See `FoundServer.folder`."""
    servers: list[FoundServer] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Omitted settings with the reason, a line each."""

    def read(self, content: bytes) -> None:
        try:
            text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:
            raise SettingsError("is not UTF-8") from None
        if re.match(r'\s*"[^"\n]+"\s*:\s*\{', text):  # pages of servers show it without the braces around it
            text = f"{{{text.strip().rstrip(',')}}}"
        is_json = text.lstrip()[:1] == "{" or self.path.suffix in (".json", ".jsonc")
        most = MAX_HOST_FILE_BYTES if is_json and self.scope == "user" else MAX_BYTES
        if len(content) > most:
            raise SettingsError(f"is larger than {most // 2**20} MiB")
        syntax: file_edits.Syntax = "toml" if file_edits.looks_like_toml(text) else "yaml"
        try:
            data = file_edits.read(text, "json" if is_json else syntax)
        except NotEditable as error:
            raise SettingsError(str(error)) from None
        projects = data.pop("projects", None) if self.path.name == ".claude.json" else None
        data = _with_section(data) if is_json else data
        if _has_servers(data):
            self.take(data)
        elif projects is None and not self.host:
            raise SettingsError(
                f"holds no servers; they are looked for under servers, mcpServers, {', '.join(SECTIONS)}"
            )
        self.take_projects(projects)

    def take_projects(self, projects: Any) -> None:
        for folder, project in projects.items() if isinstance(projects, dict) else ():
            if isinstance(project, dict) and project.get("mcpServers"):  # servers of Claude Code for one folder
                part = replace(
                    self,
                    source=f"{self.source}, project {printable(folder)}",
                    project=Path(folder),
                    folder=folder,
                    servers=[],
                    skipped=[],
                )
                part.take({"mcpServers": project["mcpServers"]})
                _switch_off(part, set(names_in(project.get("disabledMcpServers"))))
                self.servers += part.servers
                self.skipped += part.skipped

    def take(self, data: dict[str, Any]) -> None:
        taken: set[str] = set()
        for name_there, entry, dialect in _entries(data):
            name = server_name(name_there)
            if isinstance(entry, dict):
                result = translated(entry, dialect, self.environ)
                restrict_by_file(name_there, result, data)
            else:
                result = TranslatedEntry(problems=[((), "must be a mapping of settings")])
            lines = [*result.problems, *result.warnings]
            lines += [((), f"ignored: it {result.left_out}")] if result.left_out else []
            lines += [((), f"is called {name!r} here")] if name != name_there and not result.left_out else []
            lines += [((), f"there are two servers {name!r}; rename one")] if name in taken else []
            for path, message in lines:
                where = ""
                for key in (name_there, *path):
                    where = joined(where, key)
                self.skipped.append(f"{where}: {message}")
            if not result.problems and not result.left_out and name not in taken:
                self.servers.append(self._server(name, name_there, result))
            taken.add(name)

    def _server(self, name: str, name_there: str, result: TranslatedEntry) -> FoundServer:
        members = result.members
        if left_out := [key for key in members if key not in _ORDER]:
            self.skipped.append(f"{name}: not taken over: {', '.join(map(printable, left_out))}")
        entry = {
            key: self._plain(members[key], name, is_text=key in _TEXTS)
            for key in _ORDER
            if members.get(key) is not None
        }
        self._simplify(entry)
        project = server_name(self.project.name) if self.project is not None else ""
        return FoundServer(
            name=name,
            entry=entry,
            source=self.source,
            host=self.host,
            scope=self.scope,
            project=project,
            is_unclear=result.is_unclear,
            name_there=name_there,
            folder=self.folder,
        )

    def _plain(self, value: Any, server: str, *, is_text: bool) -> Any:
        """The value with our names of variables, and with an editor's folders filled in where they can be."""
        if isinstance(value, dict):
            members = ((key, self._plain(it, server, is_text=is_text)) for key, it in value.items())
            return {key: it for key, it in members if it is not None}
        if isinstance(value, list):
            return [self._plain(it, server, is_text=is_text) for it in value]
        if not isinstance(value, str):
            return json.dumps(value) if is_text and isinstance(value, int | float) else value

        def variable(match: re.Match[str]) -> str:
            # The path of a file, in opencode's form, is not part of ours.
            name = f"{server}_FILE" if match[1] == "file" else match[2]
            name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
            return f"${{{name if re.match(r'[A-Z_]', name) else f'VALUE_{name}'}}}"

        text = re.sub(r"\$\{env:([A-Za-z_]\w*)", r"${\1", _OF_EDITOR.sub(variable, value))
        text = text.replace("${userHome}", "${HOME}").replace("${pathSeparator}", os.sep).replace("${/}", os.sep)
        if self.project is not None:
            text = re.sub(r"\$\{workspace(?:Folder|Root)\}", lambda _: str(self.project), text)
            text = text.replace("${workspaceFolderBasename}", self.project.name)
        return text

    def _simplify(self, entry: dict[str, Any]) -> None:
        if entry.get("enabled") is True:
            del entry["enabled"]
        if re.fullmatch(r"[^?#]*/sse/?", str(entry.get("url"))):  # hosts that are told nothing try both
            entry.setdefault("transport", "sse")
        if "url" not in entry or entry.get("transport") == "http":
            entry.pop("transport", None)
        if entry.get("tools") == {"include": ["*"]}:
            del entry["tools"]
        for key in ("args", "env", "headers"):
            if not entry.get(key):
                entry.pop(key, None)
        if self.project is not None and "command" in entry:  # where the host starts it
            entry["cwd"] = os.path.normpath(self.project / str(entry.get("cwd") or "."))
            if str(entry["command"]).startswith(("./", "../")):
                entry["command"] = os.path.normpath(self.project / entry["command"])


def read_place(place: HostPlace, environ: Mapping[str, str], project: Path | None = None) -> SourceServers:
    """The servers in a host's file, if it exists. `project` is the folder that project files belong to."""
    folder = (project or Path.cwd()) if place.scope == "project" else None
    source = f"{place.host.name}, {_shown(place.path)}"
    found = SourceServers(source, place.host.id, place.scope, place.path, environ, folder)
    try:
        if place.path.is_file():
            found.read(read_regular(place.path, MAX_HOST_FILE_BYTES))
            if place.host.id == "claude-code" and folder is not None:
                _switch_off(found, _rejected_in_claude(folder))
    except OSError as error:
        found.skipped.append(f"can't be read: {error.strerror}")
    except SettingsError as error:
        found.skipped += str(error).split("\n")
    return found


def read_text(
    content: bytes, source: str, environ: Mapping[str, str], path: Path | None = None, project: Path | None = None
) -> SourceServers:
    """The servers in a text of any host's form, of a project if there is one. Raises `SettingsError` if it has none of
    the forms."""
    found = SourceServers(source, "", "user", path or Path.cwd() / source, environ, project)
    found.read(content)
    return found


def read_data(data: dict[str, Any], host: str, path: Path, environ: Mapping[str, str]) -> list[FoundServer]:
    found = SourceServers(host, host, "user", path, environ)
    found.take(data)
    if host == "claude-code":
        found.take_projects(data.get("projects"))
    return found.servers


def _has_servers(data: Mapping[str, Any]) -> bool:
    return bool({"servers", "mcpServers", *SECTIONS} & data.keys())


def _with_section(data: dict[str, Any]) -> dict[str, Any]:
    """The data with the key that pages of servers leave out."""
    if _has_servers(data) or "inputs" in data:
        return data
    if _SELECTORS & data.keys() and not isinstance(data.get("command"), dict):
        return {"mcpServers": {str(data.get("name", "server")): data}}
    are_entries = all(isinstance(it, dict) and _SELECTORS & it.keys() for it in data.values())
    return {"mcpServers": data} if data and are_entries else data


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[str, Any, Dialect]]:
    """The name and the entry of each server, with the host whose form the entry has."""
    for key in ("servers", "mcpServers", *SECTIONS):
        entries = data.get(key)
        if key == "mcp" and "mcpServers" in data:  # then these are Gemini's settings
            continue
        dialect: Dialect = SECTIONS.get(key, "any")
        if key == "mcp" and isinstance(entries, dict):
            inner = entries.get("servers")
            if isinstance(inner, dict) and not {"command", "url"} & inner.keys():  # opencode 2
                entries = inner
            entries = {name: it for name, it in entries.items() if isinstance(it, dict)}
        elif key == "mcpServers" and isinstance(entries, list):  # Continue
            rows = [it for it in entries if isinstance(it, dict)]
            for number, it in enumerate(rows, start=1):  # two may have one name
                inner = {name: value for name, value in it.items() if name != "name"}
                yield str(it.get("name") or f"server-{number}"), inner, dialect
        elif key == "mcpServers" and isinstance(entries, dict):
            is_gemini = any(_GEMINI_ENTRY & it.keys() for it in entries.values() if isinstance(it, dict))
            dialect = "gemini" if is_gemini or _GEMINI_FILE & data.keys() else "any"
        if isinstance(entries, dict):
            for name, entry in entries.items():
                yield name, entry, dialect


def restrict_by_file(name: str, result: TranslatedEntry, data: Mapping[str, Any]) -> None:
    """Restrict a server by what its host's file says of all servers."""
    is_opencode = "mcp" in data and "mcpServers" not in data
    settings, tools = (it if isinstance(it, dict) else {} for it in (data.get("mcp"), data.get("tools")))
    off = [data.get("excludeMCPServers"), *([] if is_opencode else [settings.get("excluded")])]
    on = [data.get("allowMCPServers"), *([] if is_opencode else [settings.get("allowed")])]
    unwanted = [tools.get("exclude"), data.get("excludeTools"), data.get("amp.tools.disable")]
    if any(it is not None and not isinstance(it, list) for it in (*off, *on, *unwanted)):
        result.disable((), "a restriction of this file")
    is_off = any(name.casefold() in {it.casefold() for it in names_in(names)} for names in off)
    is_on = all(names is None or name.casefold() in {it.casefold() for it in names_in(names)} for names in on)
    if is_off or not is_on:
        result.members["enabled"] = False
    for names in unwanted:
        result.exclude([glob_covering(it) for it in names_in(names) if not it.startswith("builtin:")])
    permission = data.get("permission") if is_opencode else None
    patterns = [] if "exclude" in tools else [it for it, value in tools.items() if value is not True]
    if isinstance(permission, dict):
        patterns += [it for it, value in permission.items() if value != "allow"]
    elif permission not in (None, "allow"):
        patterns.append("*")
    if concerning := next((it for it in patterns if _may_concern(it, name)), None):
        result.disable((), f"the pattern {printable(concerning)!r} of this file")


def _may_concern(pattern: str, server: str) -> bool:
    """True if a pattern over `<server>_<tool>` may match a tool of this server."""
    prefix = re.sub(r"[^A-Za-z0-9_-]", "_", server) + "_"
    head = re.split(r"[*?\[]", pattern)[0]
    return pattern.startswith(prefix) or (len(head) < len(pattern) and prefix.startswith(head))


def _rejected_in_claude(folder: Path) -> set[str]:
    """Servers of a project's `.mcp.json` that the person has rejected in Claude Code."""
    names: set[str] = set()
    state = System.current().folder("CLAUDE_CONFIG_DIR", "") / ".claude.json"
    for path in (folder / ".claude/settings.json", folder / ".claude/settings.local.json", state):
        try:
            data = file_edits.read(path.read_bytes()[:MAX_HOST_FILE_BYTES].decode(), "json") if path.is_file() else {}
        except (OSError, ValueError, NotEditable):
            continue
        at = ("projects", str(folder)) if path == state else ()
        names |= set(names_in(file_edits.find(data, (*at, "disabledMcpjsonServers"))))
    return names


def _switch_off(found: SourceServers, names: set[str]) -> None:
    for server in found.servers:
        if server.name_there in names:
            server.entry["enabled"] = False


def _shown(path: Path) -> str:
    home = Path.home()
    text = f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
    return printable(text, 300)
