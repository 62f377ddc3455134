"""The table of hosts: where each keeps its files on Linux, macOS and Windows, under which key its servers are, what its
entries call our settings, and what our own entry needs there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from codemode_server.config.file_edits import KeyPath, Syntax
from codemode_server.domain.errors import CodemodeError

SystemName: TypeAlias = Literal["linux", "macos", "windows"]
Scope: TypeAlias = Literal["user", "project"]
Dialect: TypeAlias = Literal["any", "codex", "gemini", "goose", "opencode", "zed"]
"""The host whose entries they are, if the same keys mean different things."""


@dataclass(frozen=True, slots=True)
class System:
    """What the places of files depend on, so that the rules of all three systems can be tested on one."""

    name: SystemName
    home: Path
    environ: Mapping[str, str]

    @classmethod
    def current(cls) -> System:
        names: dict[str, SystemName] = {"darwin": "macos", "win32": "windows"}
        return cls(names.get(sys.platform, "linux"), Path.home(), os.environ)

    @property
    def config(self) -> Path:
        """`$XDG_CONFIG_HOME`, or `.config` in the home folder; several hosts use it on every system."""
        return self.folder("XDG_CONFIG_HOME", ".config")

    @property
    def roaming(self) -> Path:
        return self.folder("APPDATA", "AppData/Roaming")

    @property
    def applications(self) -> Path:
        """Where desktop applications keep their settings."""
        if self.name == "windows":
            return self.roaming
        return self.home / "Library/Application Support" if self.name == "macos" else self.config

    def folder(self, variable: str, otherwise: str) -> Path:
        given = self.environ.get(variable)
        return Path(given) if given else self.home / otherwise


@dataclass(frozen=True, slots=True)
class HostPlace:
    """One configuration file of a host; it may not exist."""

    host: KnownHost
    path: Path
    scope: Scope


@dataclass(frozen=True, slots=True)
class KnownHost:
    id: str
    """As typed on the command line."""
    name: str
    of_user: Callable[[System], Iterable[Path]]
    """The user's files. A new one is made at the first place."""
    of_project: tuple[str, ...] = ()
    syntax: Syntax = "json"
    servers: KeyPath = ("mcpServers",)
    dialect: Dialect = "any"
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    """Keys of our entry after the command. Claude Code shows our tools to the model at once only with `alwaysLoad`,
    Codex waits for a server only if it is `required`, Copilot CLI offers no tool that `tools` doesn't name."""

    def user_places(self, system: System) -> list[HostPlace]:
        return [HostPlace(self, path, "user") for path in dict.fromkeys(self.of_user(system))]

    def project_places(self, folder: Path) -> list[HostPlace]:
        return [HostPlace(self, folder / name, "project") for name in self.of_project]

    def place(self, system: System, project: Path | None = None) -> HostPlace:
        """The file that the host reads: the first that exists, else where a new one is made. Raises `CodemodeError` if
        the host has no files in projects."""
        places = self.user_places(system) if project is None else self.project_places(project)
        if not places:
            raise CodemodeError(f"{self.name} has no configuration files in projects")
        return next((place for place in places if place.path.is_file()), places[0])

    def is_present(self, system: System) -> bool:
        """True if this machine seems to have the host: one of its files, or the folder for it."""
        shared = {system.home, system.config, system.roaming, system.applications}
        return any(
            place.path.is_file() or (place.path.parent not in shared and place.path.parent.is_dir())
            for place in self.user_places(system)
        )


def all_places(system: System, project: Path | None = None) -> list[HostPlace]:
    """Every place of every host, the user's first. A file that several hosts read is there once."""
    places = [place for host in HOSTS.values() for place in host.user_places(system)]
    if project is not None:
        places += [place for host in HOSTS.values() for place in host.project_places(project)]
    by_path: dict[Path, HostPlace] = {}
    for place in places:
        by_path.setdefault(place.path, place)
    return list(by_path.values())


def project_of(file: Path) -> Path | None:
    """The folder of the project that a host's file belongs to by its name, `.cursor/mcp.json` for instance; None if it
    belongs to none."""
    tails = (Path(name).parts for host in HOSTS.values() for name in host.of_project)
    depth = next((len(tail) for tail in tails if file.parts[-len(tail) :] == tail), 0)
    return file.parents[depth - 1] if depth and file.parents[depth - 1] != Path.home() else None


def _claude_desktop(system: System) -> list[Path]:
    name = "claude_desktop_config.json"
    packaged: list[Path] = []
    if system.name == "windows":
        packages = system.folder("LOCALAPPDATA", "AppData/Local") / "Packages"
        packaged = [folder / "LocalCache/Roaming/Claude" / name for folder in sorted(packages.glob("Claude_*"))]
    return [*packaged, system.applications / "Claude" / name]


def _vscode(system: System) -> list[Path]:
    user = system.applications / "Code/User"
    return [user / "mcp.json", *sorted(user.glob("profiles/*/mcp.json"))]


def _zed(system: System) -> list[Path]:
    if system.name == "windows":
        return [system.roaming / "Zed/settings.json"]
    return [(system.config if system.name == "linux" else system.home / ".config") / "zed/settings.json"]


def _goose(system: System) -> list[Path]:
    if system.name == "windows":
        return [system.roaming / "Block/goose/config/config.yaml"]
    return [system.config / "goose/config.yaml"]


def _in_config(*names: str) -> Callable[[System], list[Path]]:
    return lambda system: [system.config / name for name in names]


def _in_home(name: str) -> Callable[[System], list[Path]]:
    return lambda system: [system.home / name]


def _in_folder(variable: str, folder: str, name: str) -> Callable[[System], list[Path]]:
    return lambda system: [system.folder(variable, folder) / name]


_OPENCODE = ("opencode.json", "opencode.jsonc")
_ALL = (
    KnownHost("claude-desktop", "Claude Desktop", _claude_desktop),
    KnownHost(
        "claude-code",
        "Claude Code",
        _in_folder("CLAUDE_CONFIG_DIR", "", ".claude.json"),
        (".mcp.json",),
        before={"type": "stdio"},
        after={"alwaysLoad": True},
    ),
    KnownHost("cursor", "Cursor", _in_home(".cursor/mcp.json"), (".cursor/mcp.json",)),
    KnownHost("vscode", "VS Code", _vscode, (".vscode/mcp.json",), servers=("servers",), before={"type": "stdio"}),
    KnownHost(
        "copilot",
        "Copilot CLI",
        _in_folder("COPILOT_HOME", ".copilot", "mcp-config.json"),
        (".github/mcp.json", ".mcp.json"),
        before={"type": "local"},
        after={"tools": ["*"]},
    ),
    KnownHost(
        "codex",
        "Codex",
        _in_folder("CODEX_HOME", ".codex", "config.toml"),
        (".codex/config.toml",),
        "toml",
        ("mcp_servers",),
        "codex",
        after={"required": True},
    ),
    KnownHost("gemini", "Gemini CLI", _in_home(".gemini/settings.json"), (".gemini/settings.json",), dialect="gemini"),
    KnownHost("qwen", "Qwen Code", _in_home(".qwen/settings.json"), (".qwen/settings.json",), dialect="gemini"),
    KnownHost(
        "opencode",
        "opencode",
        _in_config(*(f"opencode/{name}" for name in (*_OPENCODE, "config.json"))),
        (*_OPENCODE, *(f".opencode/{name}" for name in _OPENCODE)),
        servers=("mcp",),
        dialect="opencode",
    ),
    KnownHost("windsurf", "Windsurf", _in_home(".codeium/windsurf/mcp_config.json")),
    KnownHost(
        "zed",
        "Zed",
        _zed,
        (".zed/settings.json",),
        servers=("context_servers",),
        dialect="zed",
        before={"source": "custom"},
    ),
    KnownHost("goose", "goose", _goose, (), "yaml", ("extensions",), "goose"),
    KnownHost("cline", "Cline", _in_home(".cline/data/settings/cline_mcp_settings.json")),
    KnownHost("amp", "Amp", _in_config("amp/settings.json"), (".amp/settings.json",), servers=("amp.mcpServers",)),
    KnownHost("continue", "Continue", _in_home(".continue/config.yaml"), (), "yaml"),
    KnownHost("kiro", "Kiro", _in_home(".kiro/settings/mcp.json"), (".kiro/settings/mcp.json",)),
)
HOSTS: Mapping[str, KnownHost] = {host.id: host for host in _ALL}
"""By id, in the order in which they are read and shown."""
SECTIONS: Mapping[str, Dialect] = {
    key: host.dialect for host in _ALL for key in host.servers if key not in ("servers", "mcpServers")
}


def _by_name_there(names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, many in names.items() for theirs in many.split()}


SYNONYMS = _by_name_there(
    {
        "url": "serverUrl httpUrl uri",
        "command": "cmd",
        "env": "environment envs",
        "headers": "http_headers",
        "cwd": "workingDirectory",
        "timeout": "tool_timeout_sec timeoutMs request_timeout_ms",
        "transport": "type transportType",
        "oauth": "auth",
        "include": "includeTools enabledTools enabled_tools available_tools",
        "exclude": "excludeTools disabledTools disabled_tools",
    }
)
"""Our settings by the hosts' names for them."""
SIGN_IN_SYNONYMS = _by_name_there(
    {
        "client_id": "clientId CLIENT_ID",
        "client_secret": "clientSecret CLIENT_SECRET",
        "scopes": "scope",
        "redirect_uri": "redirectUri",
        "client_metadata_url": "clientMetadataUrl",
        "token_endpoint_auth_method": "tokenEndpointAuthMethod",
    }
)
