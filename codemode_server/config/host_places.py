"""Where 16 hosts keep their configuration files on Linux, macOS and Windows, and under which key their servers are.

The paths follow from the system's name, the home folder and the environment that are given, so the rules of all three
systems can be tested on one. Only folders whose names the host makes up (profiles, packages) are looked for on disk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

SystemName: TypeAlias = Literal["linux", "macos", "windows"]
Syntax: TypeAlias = Literal["json", "toml", "yaml"]
"""`json` may have comments and trailing commas."""
Scope: TypeAlias = Literal["user", "project"]
KeyPath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class System:
    """What the places of files depend on."""

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
        """The folder that the variable names, or one below the home folder."""
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
    """One host with its files."""

    id: str
    """As typed on the command line."""
    name: str
    syntax: Syntax
    servers: KeyPath
    """Where a file has its servers."""
    of_user: Callable[[System], Iterable[Path]]
    """The user's files. A new one is made at the first place."""
    of_project: tuple[str, ...] = ()
    """Files in a project's folder. A new one is made at the first place."""
    other_servers: tuple[KeyPath, ...] = ()
    """Further places of servers in a file, for other versions of the host; `*` stands for any key."""

    def user_places(self, system: System) -> list[HostPlace]:
        return [HostPlace(self, path, "user") for path in dict.fromkeys(self.of_user(system))]

    def project_places(self, folder: Path) -> list[HostPlace]:
        return [HostPlace(self, folder / name, "project") for name in self.of_project]

    def place(self, system: System, project: Path | None = None) -> HostPlace:
        """The file that the host reads: the first that exists, else where a new one is made.

        Raises:
            ValueError: the host has no files in projects.
        """
        places = self.user_places(system) if project is None else self.project_places(project)
        if not places:
            raise ValueError(f"{self.name} has no configuration files in projects")
        return next((place for place in places if place.path.is_file()), places[0])

    def is_present(self, system: System) -> bool:
        """Whether this machine seems to have the host: one of its files, or the folder for it."""
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


def _claude_desktop(system: System) -> list[Path]:
    name = "claude_desktop_config.json"
    packaged: list[Path] = []
    if system.name == "windows":
        packages = system.folder("LOCALAPPDATA", "AppData/Local") / "Packages"
        packaged = [folder / "LocalCache/Roaming/Claude" / name for folder in sorted(packages.glob("Claude_*"))]
    return [*packaged, system.applications / "Claude" / name]


def _claude_code(system: System) -> list[Path]:
    given = system.environ.get("CLAUDE_CONFIG_DIR")
    return [(Path(given) if given else system.home) / ".claude.json"]


def _vscode(system: System) -> list[Path]:
    user = system.applications / "Code/User"
    return [user / "mcp.json", *sorted(user.glob("profiles/*/mcp.json"))]


def _opencode(system: System) -> list[Path]:
    return [system.config / "opencode" / name for name in ("opencode.json", "opencode.jsonc", "config.json")]


def _zed(system: System) -> list[Path]:
    if system.name == "windows":
        return [system.roaming / "Zed/settings.json"]
    return [(system.config if system.name == "linux" else system.home / ".config") / "zed/settings.json"]


def _goose(system: System) -> list[Path]:
    if system.name == "windows":
        return [system.roaming / "Block/goose/config/config.yaml"]
    return [system.config / "goose/config.yaml"]


def _in_home(name: str) -> Callable[[System], list[Path]]:
    return lambda system: [system.home / name]


def _in_folder(variable: str, folder: str, name: str) -> Callable[[System], list[Path]]:
    return lambda system: [system.folder(variable, folder) / name]


_OPENCODE_PROJECT = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
_ALL = (
    KnownHost("claude-desktop", "Claude Desktop", "json", ("mcpServers",), _claude_desktop),
    KnownHost(
        "claude-code",
        "Claude Code",
        "json",
        ("mcpServers",),
        _claude_code,
        (".mcp.json",),
        (("projects", "*", "mcpServers"),),
    ),
    KnownHost("cursor", "Cursor", "json", ("mcpServers",), _in_home(".cursor/mcp.json"), (".cursor/mcp.json",)),
    KnownHost("vscode", "VS Code", "json", ("servers",), _vscode, (".vscode/mcp.json",)),
    KnownHost(
        "copilot",
        "Copilot CLI",
        "json",
        ("mcpServers",),
        _in_folder("COPILOT_HOME", ".copilot", "mcp-config.json"),
        (".github/mcp.json", ".mcp.json"),
    ),
    KnownHost(
        "codex",
        "Codex",
        "toml",
        ("mcp_servers",),
        _in_folder("CODEX_HOME", ".codex", "config.toml"),
        (".codex/config.toml",),
    ),
    KnownHost(
        "gemini", "Gemini CLI", "json", ("mcpServers",), _in_home(".gemini/settings.json"), (".gemini/settings.json",)
    ),
    KnownHost("qwen", "Qwen Code", "json", ("mcpServers",), _in_home(".qwen/settings.json"), (".qwen/settings.json",)),
    KnownHost("opencode", "opencode", "json", ("mcp",), _opencode, _OPENCODE_PROJECT, (("mcp", "servers"),)),
    KnownHost("windsurf", "Windsurf", "json", ("mcpServers",), _in_home(".codeium/windsurf/mcp_config.json")),
    KnownHost("zed", "Zed", "json", ("context_servers",), _zed, (".zed/settings.json",)),
    KnownHost("goose", "goose", "yaml", ("extensions",), _goose),
    KnownHost("cline", "Cline", "json", ("mcpServers",), _in_home(".cline/data/settings/cline_mcp_settings.json")),
    KnownHost(
        "amp",
        "Amp",
        "json",
        ("amp.mcpServers",),
        lambda system: [system.config / "amp/settings.json"],
        (".amp/settings.json",),
    ),
    KnownHost("continue", "Continue", "yaml", ("mcpServers",), _in_home(".continue/config.yaml")),
    KnownHost(
        "kiro", "Kiro", "json", ("mcpServers",), _in_home(".kiro/settings/mcp.json"), (".kiro/settings/mcp.json",)
    ),
)
HOSTS: Mapping[str, KnownHost] = {host.id: host for host in _ALL}
"""By id, in the order in which they are read and shown."""
