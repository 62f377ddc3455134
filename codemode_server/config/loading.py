"""Finds the configuration file and reads it: text → tree → hosts' form → variables → settings → secrets.

    settings, path, base_dir …  =  load(path)

Where it is: `--config PATH`, else `$CODEMODE_CONFIG`, else `upstream.yaml` (or `.yml`) in the current folder, else in
the user's configuration folder. None there is no error: there are no servers then, and a warning says how to begin.
A path that was given and isn't there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.config import checking, hosts
from codemode_server.config.document import EMPTY, MAX_BYTES, Node, parse
from codemode_server.config.expansion import NotExpandable, expand, read_dotenv
from codemode_server.config.problems import Problems, nearest, printable
from codemode_server.config.secrecy import Secrets, looks_secret
from codemode_server.errors import SettingsError
from codemode_server.settings import LangfuseSettings, ServerSettings, Settings, is_folder

NAMES = ("upstream.yaml", "upstream.yml")
VARIABLE = "CODEMODE_CONFIG"
_SERVER_KEYS = frozenset(ServerSettings.model_fields)
_MAY_BE_SECRET = frozenset({"env", "headers", "args", "url"})
_OFF = frozenset({"false", "0", "no", "off", "n", "f"})

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Time, size and inode of the file and of its `.env`, or none where there is no such file."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """A configuration as it was understood. Its `repr` shows no values of it."""

    settings: Settings = field(repr=False)
    path: Path | None
    """The file; none if there is none."""
    base_dir: Path
    """What relative paths in the settings were relative to; they are absolute now."""
    warnings: tuple[str, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """What must never appear in logs, traces, errors, stubs or the sandbox; `secrecy` says what that is."""
    expanded_from: frozenset[str] = frozenset()
    """Names of the variables that were used."""
    short_secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Secrets too short or too common to be masked everywhere; masked by `describe`."""
    stamp: Stamp = field(default=(), repr=False, compare=False)
    """Which state of the files this is."""


def load(
    path: Path | None = None, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> LoadedSettings:
    """The configuration at `path`, or wherever it is.

    Raises `SettingsError` with all that is wrong with it.
    """
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    warnings: list[str] = []
    found = _find(path, environ, cwd, warnings)
    if found is None:
        return _no_file(environ, cwd, warnings)
    stamp = stamp_of(found)
    name = _shown(found, cwd)
    problems = Problems(name)
    text = _read(found, problems)
    is_json = found.suffix in (".json", ".jsonc") or text.lstrip().startswith("{")
    tree = parse(text, problems, is_json=is_json)
    dotenv = read_dotenv(found.with_name(".env"), warnings, _shown(found.with_name(".env"), cwd))
    reading = _Reading(problems, warnings, {**dotenv, **environ}, found.parent)
    settings = reading.settings(_one_form(tree, problems, warnings, is_json=is_json))
    return LoadedSettings(
        settings=settings,
        path=found,
        base_dir=found.parent,
        warnings=tuple(warnings),
        secrets=frozenset(reading.secrets.values),
        short_secrets=frozenset(reading.secrets.short),
        expanded_from=frozenset(reading.used),
        stamp=stamp,
    )


def stamp_of(path: Path) -> Stamp:
    """The state that the file and its `.env` are in."""

    def one(file: Path) -> tuple[int, int, int] | None:
        try:
            status = file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    return one(path), one(path.with_name(".env"))


def user_file() -> Path:
    """The file in the user's configuration folder."""
    from platformdirs import user_config_path

    return user_config_path("codemode-server", appauthor=False) / NAMES[0]


def _find(path: Path | None, environ: Mapping[str, str], cwd: Path, warnings: list[str]) -> Path | None:
    given, by = (path, "--config") if path else (environ.get(VARIABLE), f"${VARIABLE}")
    if given:
        named = Path(os.path.normpath(cwd / Path(given).expanduser()))
        if named.is_dir():
            raise SettingsError(f"{given}: is a folder; give the file ({by}), for instance {named / NAMES[0]}")
        if not named.exists():
            raise SettingsError(f"{given}: there is no such file ({by}); correct the path or create the file")
        return named
    here = [cwd / name for name in NAMES if (cwd / name).is_file()]
    if len(here) > 1:
        warnings.append(f"{NAMES[0]} is read; {NAMES[1]} beside it is not")
    if here:
        return here[0]
    user = user_file()
    return user if user.is_file() else None


def _no_file(environ: Mapping[str, str], cwd: Path, warnings: list[str]) -> LoadedSettings:
    user = user_file()
    warnings.append(
        f"no configuration file, so there are no servers; looked at ${VARIABLE}, {cwd / NAMES[0]} and {user}. "
        f"Create one with `servers:`, or give a file with --config"
    )
    reading = _Reading(Problems(""), warnings, environ, user.parent)
    settings = reading.settings(EMPTY)
    return LoadedSettings(settings, None, user.parent, tuple(warnings), frozenset(reading.secrets.values))


def _shown(path: Path, cwd: Path) -> str:
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def _read(path: Path, problems: Problems) -> str:
    try:
        if not path.is_file():
            problems.add(0, "", "is not a regular file")
            raise problems.error()
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        problems.add(0, "", f"can't be read: {error.strerror}")
    else:
        if len(content) > MAX_BYTES:
            problems.add(0, "", "is larger than 1 MiB, which no configuration needs")
            raise problems.error()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problems.add(content.count(b"\n", 0, error.start) + 1, "", "is not UTF-8 here; save the file as UTF-8")
    raise problems.error()


def _one_form(tree: Node, problems: Problems, warnings: list[str], *, is_json: bool) -> Node:
    """The tree with all servers under `servers`, in our form.

    JSON files are taken to be hosts' own, so keys in them that are not ours are theirs; so is `mcpServers` anywhere.
    """
    members = {key: node for key, node in tree.entries.items() if not key.startswith("x-") and key != "$schema"}
    foreign = members.pop("mcpServers", None)
    ours = members.get("servers")
    servers: dict[str, Node] = {}
    for section, is_hosts in ((ours, is_json), (foreign, True)):
        if section is None or section.value is None:
            continue
        if not isinstance(section.value, dict):
            problems.add(section.line, section.where, "must be a mapping of names to servers")
            continue
        for name, entry in section.entries.items():
            legal = hosts.server_name(name) if is_hosts else name
            if is_hosts:
                if hosts.starts_this_server(entry):
                    warnings.append(f"{problems.name}:{entry.line}: {entry.where}: left out, since it is this server")
                    continue
                if legal != name:
                    warnings.append(f"{problems.name}:{entry.line}: {entry.where}: is called {legal!r} here")
                entry = hosts.translated(entry, _SERVER_KEYS, problems, warnings, problems.name)
            if legal in servers:
                problems.add(entry.line, entry.where, f"there are two servers {legal!r}; rename one")
            servers[legal] = entry
    if is_json:
        others = [key for key in members if not nearest(key, Settings.model_fields, cutoff=0.8)]
        for key in others:
            del members[key]
        if others:
            names = ", ".join(repr(printable(key)) for key in others[:8]) + (" …" if len(others) > 8 else "")
            warnings.append(f"{problems.name}: ignored, since it concerns other programs only: {names}")
    if ours is not None and not isinstance(ours.value, (dict, type(None))):
        del members["servers"]
    elif servers:
        members["servers"] = Node(dict(servers), (ours or foreign or tree).line, "servers")
    return tree.with_value(members)


@dataclass(slots=True)
class _Reading:
    """One reading of one file, from its tree on."""

    problems: Problems
    warnings: list[str]
    variables: Mapping[str, str]
    base_dir: Path
    secrets: Secrets = field(default_factory=Secrets)
    used: set[str] = field(default_factory=set)
    _excused: list[checking.Place] = field(default_factory=list)

    def settings(self, tree: Node) -> Settings:
        expanded = self._expanded(tree, ())
        settings = checking.check(expanded, self.problems, self._excused)
        self.problems.raise_if_any()
        if settings is None:  # then there was a problem
            raise self.problems.error()
        settings = self._with_langfuse(self._with_paths(settings))
        self._learn_secrets(settings)
        self._warn_of_rules_for_nobody(settings, expanded)
        return settings

    def _expanded(self, node: Node, place: checking.Place, *, is_off: bool = False) -> Node:
        """The tree with its variables filled in. In a disabled server they need not be set."""
        if isinstance(node.value, dict):
            if len(place) == 2 and place[0] == "servers":
                is_off = self._is_off(node)
            members: dict[str, Node] = {}
            for key, child in node.value.items():
                try:
                    members[key] = self._expanded(child, (*place, key), is_off=is_off)
                except _LeftOut:
                    continue
            return node.with_value(members)
        if isinstance(node.value, list):
            items = [self._expanded(child, (*place, index), is_off=is_off) for index, child in enumerate(node.value)]
            return node.with_value(items)
        if not isinstance(node.value, str):
            return node
        try:
            expansion = expand(node.value, self.variables)
        except NotExpandable as error:
            if not is_off:
                self.problems.add(node.line, node.where, str(error))
                self._excused.append(place)
            elif place[2:] in (("timeout",), ("transport",), ("protocol",)):
                raise _LeftOut from None
            return node
        for variable, value in (*expansion.used, *expansion.defaulted):
            self.used.add(variable)
            in_server = len(place) >= 3 and place[0] == "servers"
            if (in_server and place[2] in _MAY_BE_SECRET) or looks_secret(variable):
                key = str(place[-1]) if in_server else ""
                is_default = (variable, value) in expansion.defaulted
                self.secrets.add_variable(variable, key, value, is_default=is_default)
        return node if expansion.text == node.value else node.with_value(expansion.text)

    def _is_off(self, server: Node) -> bool:
        enabled = server.entries.get("enabled")
        if enabled is None:
            return False
        try:
            return expand(enabled.text, self.variables).text.casefold() in _OFF or enabled.value is False
        except NotExpandable:
            return False

    def _with_paths(self, settings: Settings) -> Settings:
        """The settings with paths that are absolute."""
        servers = {
            name: server
            if server.command is None
            else server.model_copy(
                update={
                    "command": self._path(server.command) if _is_path(server.command) else server.command,
                    "cwd": self._path(server.cwd or "."),
                }
            )
            for name, server in settings.servers.items()
        }
        state = settings.state.model_copy(
            update={
                "dir": settings.state.dir and self._path(settings.state.dir),
                "skills": self._path(settings.state.skills),
            }
        )
        model = settings.search.model
        search = settings.search.model_copy(update={"model": self._path(model) if is_folder(model) else model})
        return settings.model_copy(update={"servers": servers, "state": state, "search": search})

    def _path(self, path: str) -> str:
        try:
            expanded = Path(path).expanduser()
        except RuntimeError:  # `~someone` that there isn't
            expanded = Path(path)
        return os.path.normpath(self.base_dir / expanded)

    def _with_langfuse(self, settings: Settings) -> Settings:
        """Langfuse's own variables too, so that those in `.env` count."""
        given = settings.tracing.langfuse
        filled = {
            key: getattr(given, key) or self.variables.get(f"LANGFUSE_{key.upper()}") or None
            for key in LangfuseSettings.model_fields
        }
        tracing = settings.tracing.model_copy(update={"langfuse": given.model_copy(update=filled)})
        return settings.model_copy(update={"tracing": tracing})

    def _learn_secrets(self, settings: Settings) -> None:
        for server in settings.servers.values():
            self.secrets.add_server(server)
        langfuse = settings.tracing.langfuse
        self.secrets.add_named(langfuse.secret_key)
        self.secrets.add_named(langfuse.public_key)
        self.secrets.add_address(langfuse.base_url)
        self.secrets.add_address(settings.tracing.otlp_endpoint)
        if (endpoint := settings.search.endpoint) is not None:
            self.secrets.add_named(endpoint.api_key)
            self.secrets.add_address(endpoint.url)

    def _warn_of_rules_for_nobody(self, settings: Settings, tree: Node) -> None:
        """A rule with a misspelt server protects nothing."""
        from fnmatch import fnmatchcase

        names = set(settings.servers) | {_pythonic(name) for name in settings.servers}
        for index, rule in enumerate(settings.permissions.rules if names else ()):
            server_glob = rule.pattern.partition("/")[0]
            if any(fnmatchcase(name, server_glob) for name in names):
                continue
            node = checking.find(tree, ("permissions", "rules", index, rule.answer))
            meant = nearest(server_glob, settings.servers)
            hint = f"; did you mean {meant!r}?" if meant else ""
            self.warnings.append(f"{self.problems.name}:{node.line}: {node.where}: matches no server{hint}")


class _LeftOut(Exception):
    """A value of a disabled server that can't be known."""


def _is_path(command: str) -> bool:
    return "/" in command or command.startswith("~")


def _pythonic(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name).casefold()
