"""Reads servers from the files of hosts, for an import.

The files are untrusted: one that is broken or huge is told, and harms no other one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from codemode_server.config.document import MAX_BYTES, Node, parse, plain_json
from codemode_server.config.formats import in_our_form
from codemode_server.config.host_entries import Translation, server_name
from codemode_server.config.host_places import HostPlace, Scope
from codemode_server.config.places import Sources
from codemode_server.config.problems import Problems, printable
from codemode_server.config.toml import looks_like_toml, parse_toml
from codemode_server.config.yaml_writing import Plain
from codemode_server.domain.errors import SettingsError

MAX_HOST_FILE_BYTES = 64 * 2**20
"""Claude Code keeps its history in the same file."""
_KEPT = frozenset(
    {
        *("servers", "inputs", "mcpServers", "context_servers", "extensions", "amp.mcpServers", "mcp", "projects"),
        *("tools", "permission", "excludeTools", "amp.tools.disable", "allowMCPServers", "excludeMCPServers"),
    }
)
"""Keys of hosts' JSON files that say something of servers."""
_KEPT_OF_PROJECT = frozenset({"mcpServers", "disabledMcpServers", "disabledMcpjsonServers"})
_ORDER = (
    *("command", "args", "env", "cwd", "url", "transport", "headers", "headers_command", "oauth"),
    *("timeout", "protocol", "description", "tools", "enabled"),
)
"""The settings that are taken over. Others give a server more than its host did, so the person has to add them."""
_TEXTS = frozenset({"args", "env", "headers"})
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
    """Its id; empty if it is not known."""
    scope: Scope
    """`project` if somebody else may have written the file."""
    project: str = ""
    """A short name of the folder that it is for."""
    rules: list[dict[str, str]] = field(default_factory=list)
    from_env_file: frozenset[str] = frozenset()
    asked: dict[str, str] = field(default_factory=dict)
    """Variables that the host asks the person for, or has itself, with what is known of them."""

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False

    def variables(self) -> list[str]:
        """The variables without a default in the entry."""
        return list(dict.fromkeys(_UNSET.findall(json.dumps(self.entry))))


@dataclass(slots=True)
class SourceServers:
    """What was found in one source: a file, an address or a command line."""

    source: str
    servers: list[FoundServer] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """What was left out and why, a line each."""


def read_place(place: HostPlace, environ: Mapping[str, str], project: Path | None = None) -> SourceServers:
    """The servers in a host's file, if it exists. `project` is the folder that project files belong to."""
    found = SourceServers(f"{place.host.name}, {_shown(place.path)}")
    try:
        if not place.path.is_file():
            return found
        content = read_regular(place.path)
    except OSError as error:
        found.skipped.append(f"can't be read: {error.strerror}")
        return found
    except SettingsError as error:
        found.skipped.append(str(error))
        return found
    try:
        folder = (project or Path.cwd()) if place.scope == "project" else None
        reader = _Reader(found, place.host.id, place.scope, folder, place.path, environ)
        reader.read(content)
        if place.host.id == "claude-code" and place.scope == "project" and folder is not None:
            _switch_off(found, _disabled_in_claude(folder))
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
        most = MAX_BYTES if self.scope == "project" else MAX_HOST_FILE_BYTES
        if len(content) > most:
            raise SettingsError(f"is larger than {most // 2**20} MiB")
        try:
            text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:
            raise SettingsError("is not UTF-8") from None
        problems = Problems(self._name)
        is_json = text.lstrip()[:1] == "{" or self.path.suffix in (".json", ".jsonc")
        if looks_like_toml(text) and not is_json:
            tree = parse_toml(text, problems)
        else:
            if is_json and (len(text) > MAX_BYTES or self._is_claude_state):
                text = _slim(text)
            tree = parse(_wrapped(text), problems, is_json=is_json)
        is_state = self._is_claude_state and "projects" in tree.entries
        own = {key: node for key, node in tree.entries.items() if key != "projects"} if is_state else tree.entries
        self._take(tree.with_value(own), problems, is_host_file=is_json or looks_like_toml(text))
        if is_state:
            self._read_claude_projects(tree)

    @property
    def _is_claude_state(self) -> bool:
        return self.path.name == ".claude.json"

    @property
    def _name(self) -> str:
        return self.path.name

    def _read_claude_projects(self, tree: Node) -> None:
        """Servers that Claude Code has for single folders."""
        for folder, project in tree.entries["projects"].entries.items():
            servers = project.entries.get("mcpServers")
            if servers is None or not servers.entries:
                continue
            part = SourceServers(f"{self.found.source}, project {printable(folder)}")
            inner = _Reader(part, self.host, self.scope, Path(folder), self.path, self.environ)
            try:
                inner._take(tree.with_value({"mcpServers": servers}), Problems(self._name), is_host_file=True)
            except SettingsError as error:
                self.found.skipped += str(error).split("\n")
            _switch_off(part, _names(project.entries.get("disabledMcpServers")))
            self.found.servers += part.servers
            self.found.skipped += part.skipped

    def _take(self, tree: Node, problems: Problems, *, is_host_file: bool) -> None:
        warnings: list[str] = []
        translation = Translation(problems, warnings, self.environ, self.project or self.path.parent, Sources())
        ours = in_our_form(tree, translation, is_host_file=is_host_file)
        if any(problem.line == 0 and "holds no servers" in problem.message for problem in problems.found):
            if not self.host:
                raise problems.error()
            return
        if problems.is_outside_servers:
            raise problems.error()
        self.found.skipped += [it for it in warnings if "settings of other programs" not in it]
        invalid = problems.by_server()
        for lines in invalid.values():
            self.found.skipped += lines
        inputs = dict(_inputs(tree.entries.get("inputs")))
        servers = ours.entries["servers"].entries if "servers" in ours.entries else {}
        for name, node in servers.items():
            if name not in invalid and isinstance(node.value, dict):
                rules = [it for it in translation.rules if next(iter(it.values())).partition("/")[0] == name]
                self.found.servers.append(self._server(name, node, rules, inputs))

    def _server(self, name: str, node: Node, rules: list[dict[str, str]], inputs: Mapping[str, str]) -> FoundServer:
        asked: dict[str, str] = {}
        members = node.entries
        if left_out := [key for key in members if key not in _ORDER]:
            self.found.skipped.append(f"{name}: not taken over: {', '.join(map(printable, left_out))}")
        entry = {
            key: self._plain(members[key], name, asked, inputs, is_text=key in _TEXTS)
            for key in _ORDER
            if key in members
        }
        self._simplify(entry)
        env = members["env"].entries if "env" in members else {}
        from_env_file = frozenset(key for key, child in env.items() if child.env_file)
        project = server_name(self.project.name) if self.project is not None else ""
        return FoundServer(name, entry, self.found.source, self.host, self.scope, project, rules, from_env_file, asked)

    def _plain(
        self, node: Node, server: str, asked: dict[str, str], inputs: Mapping[str, str], *, is_text: bool
    ) -> Any:
        plain = partial(self._plain, server=server, asked=asked, inputs=inputs, is_text=is_text)
        if isinstance(node.value, dict):
            return {key: plain(it) for key, it in node.value.items() if it.value is not None}
        if isinstance(node.value, list):
            return [plain(it) for it in node.value]
        if not isinstance(node.value, str):
            return node.text if is_text and node.value is not None else node.value

        def variable(found: re.Match[str]) -> str:
            if found[1] == "file":  # opencode's, whose path is not part of our form
                name, why = f"{re.sub(r'[^A-Za-z0-9]+', '_', server).upper()}_FILE", "what is in the file there"
            else:
                name = re.sub(r"\W+", "_", found[2], flags=re.ASCII).strip("_").upper()
                why = inputs.get(found[2], "") or f"the host writes {printable(found[0])}"
            name = name if re.match(r"[A-Z_]", name) else f"VALUE_{name}"
            asked[name] = why
            return f"${{{name}}}"

        return self._in_project(_OF_EDITOR.sub(variable, node.value))

    def _in_project(self, text: str) -> str:
        """The text with our names of variables, and with an editor's folders filled in where they are known."""
        text = re.sub(r"\$\{env:([A-Za-z_]\w*)", r"${\1", text).replace("${userHome}", "${HOME}")
        text = text.replace("${pathSeparator}", os.sep).replace("${/}", os.sep)
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


def _slim(text: str) -> str:
    """The JSON without the keys that say nothing of servers."""
    try:
        data = json.loads(plain_json(text))
    except RecursionError:
        raise SettingsError("is nested too deeply") from None
    except ValueError:
        return text  # the parser says where it is wrong
    if not isinstance(data, dict):
        return text
    kept = {key: value for key, value in data.items() if key in _KEPT}
    if isinstance(projects := kept.get("projects"), dict):
        kept["projects"] = {
            folder: {key: value for key, value in project.items() if key in _KEPT_OF_PROJECT}
            for folder, project in projects.items()
            if isinstance(project, dict) and project.get("mcpServers")
        }
    return json.dumps(kept)


def _wrapped(text: str) -> str:
    """What pages of servers show to be pasted, with the key that is left out there."""
    if re.match(r'\s*"[^"\n]+"\s*:\s*\{', text):
        text = f"{{{text.strip().rstrip(',')}}}"
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = json.loads(plain_json(text))
    except (ValueError, RecursionError):
        return text
    if not isinstance(data, dict) or _KEPT & data.keys():
        return text
    is_entry = {"command", "url", "serverUrl", "httpUrl"} & data.keys()
    if is_entry and not isinstance(data.get("command"), dict):
        return json.dumps({"mcpServers": {str(data.get("name", "server")): data}})
    if data and all(
        isinstance(it, dict) and {"command", "url", "serverUrl", "httpUrl"} & it.keys() for it in data.values()
    ):
        return json.dumps({"mcpServers": data})
    return text


def _inputs(node: Node | None) -> Iterator[tuple[str, str]]:
    """What VS Code asks the person for: the description by the id."""
    for it in node.value if node is not None and isinstance(node.value, list) else []:
        if "id" in it.entries:
            yield (
                it.entries["id"].text,
                printable(it.entries["description"].text) if "description" in it.entries else "",
            )


def _disabled_in_claude(folder: Path) -> set[str]:
    """Servers of a project's `.mcp.json` that the person has rejected in Claude Code."""
    names: set[str] = set()
    for path in (folder / ".claude/settings.json", folder / ".claude/settings.local.json"):
        data = _json(path)
        names |= {it for it in data.get("disabledMcpjsonServers") or [] if isinstance(it, str)}
    given = os.environ.get("CLAUDE_CONFIG_DIR")
    projects = _json((Path(given) if given else Path.home()) / ".claude.json").get("projects")
    project = projects.get(str(folder)) if isinstance(projects, dict) else None
    if isinstance(project, dict):
        names |= {it for it in project.get("disabledMcpjsonServers") or [] if isinstance(it, str)}
    return names


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes()[:MAX_HOST_FILE_BYTES]) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _names(node: Node | None) -> set[str]:
    return {it.text for it in node.value} if node is not None and isinstance(node.value, list) else set()


def _switch_off(found: SourceServers, names: set[str]) -> None:
    for server in found.servers:
        if server.name in names:
            server.entry["enabled"] = False


def _shown(path: Path) -> str:
    home = Path.home()
    text = f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
    return printable(text, 300)
