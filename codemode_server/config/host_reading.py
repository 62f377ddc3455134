"""Reads servers from the files of hosts, for an import.

The files are untrusted: one that is broken or huge is named, and harms no other one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config import file_edits
from codemode_server.config.document import MAX_BYTES
from codemode_server.config.file_edits import NotEditable
from codemode_server.config.formats import NO_SERVERS, HostServer, has_servers, host_servers
from codemode_server.config.host_entries import TranslatedEntry, Translator, names_in
from codemode_server.config.hosts import HostPlace, Scope, System
from codemode_server.config.new_server import server_name
from codemode_server.config.places import Sources
from codemode_server.config.problems import joined, printable
from codemode_server.config.toml import looks_like_toml
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import SettingsError

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


@dataclass(slots=True)
class FoundServer:
    """One server in a host's file, in our form with variables."""

    name: str
    entry: dict[str, Plain]
    source: str
    """The host and its file, for the person."""
    host: str
    """Its id; empty if the host is unknown."""
    scope: Scope
    """`project` if somebody else may have written the file."""
    project: str = ""
    """A short name of the folder that it is for."""
    rules: list[dict[str, str]] = field(default_factory=list)
    from_env_file: frozenset[str] = frozenset()
    is_unclear: bool = False
    """True if it has a restriction that is not understood, and so must stay disabled."""
    asked: dict[str, str] = field(default_factory=dict)
    """Variables that the host asks the person for, or has itself, with a description."""

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False

    def variables(self) -> list[str]:
        """The variables without a default in the entry."""
        return list(dict.fromkeys(_UNSET.findall(json.dumps(self.entry))))


@dataclass(slots=True)
class SourceServers:
    """The servers of one source: a file, an address or a command line."""

    source: str
    servers: list[FoundServer] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Omitted settings with the reason, a line each."""


def read_place(place: HostPlace, environ: Mapping[str, str], project: Path | None = None) -> SourceServers:
    """The servers in a host's file, if it exists. `project` is the folder that project files belong to."""
    found = SourceServers(f"{place.host.name}, {_shown(place.path)}")
    folder = (project or Path.cwd()) if place.scope == "project" else None
    try:
        if place.path.is_file():
            content = read_regular(place.path)
            _Reader(found, place.host.id, place.scope, folder, place.path, environ).read(content)
            if place.host.id == "claude-code" and folder is not None:
                _switch_off(found, _rejected_in_claude(folder))
    except OSError as error:
        found.skipped.append(f"can't be read: {error.strerror}")
    except SettingsError as error:
        found.skipped += str(error).split("\n")
    return found


def read_regular(path: Path) -> bytes:
    """The content of a regular file, and at most one byte more than a host's file may have. A pipe is not waited for.

    Raises:
        OSError: it can't be read.
        SettingsError: it is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SettingsError("is not a regular file; `-` reads stdin")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_HOST_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def read_text(content: bytes, source: str, environ: Mapping[str, str], path: Path | None = None) -> SourceServers:
    """The servers in a text of any host's form.

    Raises:
        SettingsError: it has none of the forms.
    """
    found = SourceServers(source)
    _Reader(found, "", "user", None, path or Path.cwd() / source, environ).read(content)
    return found


@dataclass(slots=True)
class _Reader:
    found: SourceServers
    host: str
    scope: Scope
    project: Path | None
    """The folder of the project that the servers belong to."""
    path: Path
    environ: Mapping[str, str]

    def read(self, content: bytes) -> None:
        try:
            text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:
            raise SettingsError("is not UTF-8") from None
        if re.match(r'\s*"[^"\n]+"\s*:\s*\{', text):  # pages of servers show it without the braces around it
            text = f"{{{text.strip().rstrip(',')}}}"
        is_json = text.lstrip()[:1] == "{" or self.path.suffix in (".json", ".jsonc")
        is_toml = not is_json and looks_like_toml(text)
        most = MAX_HOST_FILE_BYTES if is_json and self.scope == "user" else MAX_BYTES
        if len(content) > most:
            raise SettingsError(f"is larger than {most // 2**20} MiB")
        try:
            data = file_edits.read(text, "json" if is_json else "toml" if is_toml else "yaml")
        except NotEditable as error:
            raise SettingsError(str(error)) from None
        projects = data.pop("projects", None) if self.path.name == ".claude.json" else None
        if projects is None or has_servers(data):
            self._take(_with_section(data) if is_json else data, is_host_file=is_json or is_toml)
        for folder, project in projects.items() if isinstance(projects, dict) else ():
            if isinstance(project, dict) and project.get("mcpServers"):  # servers of Claude Code for one folder
                part = SourceServers(f"{self.found.source}, project {printable(folder)}")
                inner = _Reader(part, self.host, self.scope, Path(folder), self.path, self.environ)
                inner._take({"mcpServers": project["mcpServers"]}, is_host_file=True)
                _switch_off(part, set(names_in(project.get("disabledMcpServers"))))
                self.found.servers += part.servers
                self.found.skipped += part.skipped

    def _take(self, data: dict[str, Any], *, is_host_file: bool) -> None:
        if not has_servers(data):
            if self.host:
                return
            raise SettingsError(NO_SERVERS)
        translator = Translator(self.environ, self.project or self.path.parent, Sources(), self.found.skipped)
        servers = list(host_servers(data, translator, is_host_file=is_host_file))
        own = data.get("servers") if not is_host_file else None
        servers += [
            HostServer(name, name, ("servers", name), TranslatedEntry(dict(entry)))
            for name, entry in (own.items() if isinstance(own, dict) else ())
            if isinstance(entry, dict)
        ]
        inputs = dict(_inputs(data.get("inputs")))
        taken: set[str] = set()
        for server in servers:
            found, name = server.translated, server.name
            lines = [(path, message) for path, message in [*found.problems, *found.warnings]]
            lines += [((), f"ignored: it {found.left_out}")] if found.left_out else []
            lines += [((), f"is called {name!r} here")] if name != server.name_there and not found.left_out else []
            lines += [((), f"there are two servers {name!r}; rename one")] if name in taken else []
            for path, message in lines:
                where = ""
                for key in (server.name_there, *path):
                    where = joined(where, key)
                self.found.skipped.append(f"{where}: {message}")
            if not found.problems and not found.left_out and name not in taken:
                self.found.servers.append(self._server(server, inputs))
            taken.add(name)

    def _server(self, server: HostServer, inputs: Mapping[str, str]) -> FoundServer:
        asked: dict[str, str] = {}
        members = server.translated.members
        if left_out := [key for key in members if key not in _ORDER]:
            self.found.skipped.append(f"{server.name}: not taken over: {', '.join(map(printable, left_out))}")
        entry = {
            key: self._plain(members[key], server.name, asked, inputs, is_text=key in _TEXTS)
            for key in _ORDER
            if members.get(key) is not None
        }
        self._simplify(entry)
        env, from_file = members.get("env") or {}, server.translated.env_file_variables
        return FoundServer(
            server.name,
            entry,
            self.found.source,
            self.host,
            self.scope,
            server_name(self.project.name) if self.project is not None else "",
            server.rules,
            frozenset(it for it, value in from_file.items() if env.get(it) == value.replace("$", "$$")),
            server.translated.is_unclear,
            asked,
        )

    def _plain(
        self, value: Any, server: str, asked: dict[str, str], inputs: Mapping[str, str], *, is_text: bool
    ) -> Any:
        """The value with our names of variables, and with an editor's folders filled in where they can be."""
        if isinstance(value, dict):
            members = ((key, self._plain(it, server, asked, inputs, is_text=is_text)) for key, it in value.items())
            return {key: it for key, it in members if it is not None}
        if isinstance(value, list):
            return [self._plain(it, server, asked, inputs, is_text=is_text) for it in value]
        if not isinstance(value, str):
            is_number = isinstance(value, int | float) and is_text
            return json.dumps(value) if is_number else value

        def variable(match: re.Match[str]) -> str:
            if match[1] == "file":  # opencode's, whose path is not part of our form
                name, why = f"{re.sub(r'[^A-Za-z0-9]+', '_', server).upper()}_FILE", "the content of the file there"
            else:
                name = re.sub(r"\W+", "_", match[2], flags=re.ASCII).strip("_").upper()
                why = inputs.get(match[2], "") or f"the host writes {printable(match[0])}"
            name = name if re.match(r"[A-Z_]", name) else f"VALUE_{name}"
            asked[name] = why
            return f"${{{name}}}"

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


def _with_section(data: dict[str, Any]) -> dict[str, Any]:
    """The data with the key that pages of servers leave out."""
    if has_servers(data) or "inputs" in data:
        return data
    if _SELECTORS & data.keys() and not isinstance(data.get("command"), dict):
        return {"mcpServers": {str(data.get("name", "server")): data}}
    are_entries = all(isinstance(it, dict) and _SELECTORS & it.keys() for it in data.values())
    return {"mcpServers": data} if data and are_entries else data


def _inputs(value: Any) -> Iterator[tuple[str, str]]:
    """Ids and descriptions of the inputs that VS Code asks the person for."""
    for it in value if isinstance(value, list) else ():
        if isinstance(it, dict) and "id" in it:
            yield str(it["id"]), printable(str(it.get("description", "")))


def _rejected_in_claude(folder: Path) -> set[str]:
    """Servers of a project's `.mcp.json` that the person has rejected in Claude Code."""
    names: set[str] = set()
    state = System.current().folder("CLAUDE_CONFIG_DIR", "") / ".claude.json"
    files = (folder / ".claude/settings.json", folder / ".claude/settings.local.json", state)
    for path in files:
        try:
            data = file_edits.read(path.read_bytes()[:MAX_HOST_FILE_BYTES].decode(), "json") if path.is_file() else {}
        except (OSError, ValueError, NotEditable):
            continue
        if path == state:
            data = file_edits.find(data, ("projects", str(folder))) or {}
        names |= set(names_in(file_edits.find(data, ("disabledMcpjsonServers",))))
    return names


def _switch_off(found: SourceServers, names: set[str]) -> None:
    for server in found.servers:
        if server.name in names:
            server.entry["enabled"] = False


def _shown(path: Path) -> str:
    home = Path.home()
    text = f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
    return printable(text, 300)
