"""Converts the tree of one file to typed settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from codemode_server.calls.policy.settings import GROUP
from codemode_server.config import checking
from codemode_server.config.commands import relative_paths
from codemode_server.config.document import EMPTY, Node
from codemode_server.config.expansion import NotExpandable, expand
from codemode_server.config.places import start_folder, with_home
from codemode_server.config.problems import Problems, nearest, printable
from codemode_server.config.secrecy import Secrets, looks_secret
from codemode_server.config.settings import ServerSettings, Settings, is_folder
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE, principal_id
from codemode_server.secrets.commands import words_of
from codemode_server.secrets.references import Reference, References, Resolver, Unresolved
from codemode_server.support.private_files import data_folder
from codemode_server.support.setting_types import Holds, NamedServer, Section

_MAY_BE_SECRET = frozenset({"env", "headers", "args", "url"})
_OFF = frozenset({"false", "0", "no", "off", "n", "f"})


@dataclass(slots=True)
class Reading:
    """One reading of one file, from its tree on."""

    problems: Problems
    warnings: list[str]
    variables: Mapping[str, str]
    base_dir: Path
    new_resolver: Callable[[Path], Resolver] | None = None
    """Makes what resolves references, for a state folder; without it they stay as they are written."""
    from_hosts: Collection[str] = ()
    """Servers whose entries are in the form of a host, where `${command:…}` is a variable of an editor."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment without the variables of `.env`."""
    secrets: Secrets = field(default_factory=Secrets)
    used: set[str] = field(default_factory=set)
    references: dict[Reference, set[str]] = field(default_factory=dict)
    """References to secrets, each with the servers that use it; an empty name stands for the rest of the file."""
    invalid_servers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _excused: list[checking.KeyPath] = field(default_factory=list)
    _resolver: References = field(default_factory=Unresolved)

    def settings(self, tree: Node) -> Settings:
        if self.new_resolver is not None:
            used = Unresolved()  # by servers that are on
            Reading(
                Problems(""), [], self.variables, self.base_dir, from_hosts=self.from_hosts, _resolver=used
            )._expanded(tree, ())
            resolver = self.new_resolver(self._state_folder(tree))
            resolver.prepare(used.found)
            self._resolver = resolver
        expanded = self._expanded(tree, ())
        settings = checking.check(expanded, self.problems, self._excused)
        if self.problems.is_outside_servers:
            raise self.problems.error()
        self.invalid_servers = self.problems.by_server()
        if self.invalid_servers:
            servers = expanded.entries["servers"]
            left = {name: entry for name, entry in servers.entries.items() if name not in self.invalid_servers}
            without = expanded.with_value({**expanded.entries, "servers": servers.with_value(left)})
            settings = checking.check(without, self.problems)
        if settings is None:  # then there was a problem
            raise self.problems.error()
        settings = self._with_principal(self._with_paths(settings))
        self._learn_secrets(settings)
        self._warn_of_unknown_groups(settings, expanded)
        self._warn_of_missing_key(settings, expanded)
        self._check_named_servers(settings, expanded)
        return settings

    def _expanded(self, node: Node, place: checking.KeyPath, *, is_off: bool = False) -> Node:
        """The tree with its variables expanded. Variables of a disabled server may be unset."""
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
        references = (Unresolved() if is_off else self._resolver) if _may_hold_secret(place) else None
        server = str(place[1]) if place[0] == "servers" and len(place) > 1 else ""
        try:
            expansion = expand(node.value, self.variables, references, may_run=server not in self.from_hosts)
        except NotExpandable as error:
            if place[:1] == ("env",) and len(place) == 2:
                self.warnings.append(f"{self.problems.name}:{node.line}: {node.where}: left out, since {error}")
                raise _LeftOut from None
            if not is_off:
                self.problems.add(node.line, node.where, str(error))
                self._excused.append(place)
            elif place[2:] in (("timeout",), ("transport",), ("protocol",)):
                raise _LeftOut from None
            return node
        for variable, value, is_default in expansion.used:
            self.used.add(variable)
            is_for_server = _is_for_server(place)
            if is_for_server or looks_secret(variable):
                key = str(place[-1]) if is_for_server else ""
                self.secrets.add_variable(variable, key, value, is_default=is_default)
        for reference, secret in expansion.secrets:
            self.references.setdefault(reference, set()).add(server)
            if secret is not None:
                self.secrets.add_reference(str(reference), secret)
        if "\0" in expansion.text:  # no path, and nothing that a process gets, can have one
            self.problems.add(node.line, node.where, "holds a NUL character")
            self._excused.append(place)
        return node if expansion.text == node.value else node.with_value(expansion.text)

    def _state_folder(self, tree: Node) -> Path:
        node = tree.entries.get("state", EMPTY).entries.get("dir", EMPTY)
        if isinstance(node.value, str):
            with suppress(NotExpandable):
                path = self._path(expand(node.value, self.variables).text)
                return Path(path) if "\0" not in path else data_folder()  # that is reported later
        return data_folder()

    def _is_off(self, server: Node) -> bool:
        enabled = server.entries.get("enabled")
        if enabled is None:
            return False
        try:
            return expand(enabled.text, self.variables).text.casefold() in _OFF or enabled.value is False
        except NotExpandable:
            return False

    def _with_paths(self, settings: Settings) -> Settings:
        servers = {name: self._completed_server(server, settings.env) for name, server in settings.servers.items()}
        state = settings.state.model_copy(
            update={
                "dir": settings.state.dir and self._path(settings.state.dir),
                "skills": self._path(settings.state.skills),
                "workflows": self._path(settings.state.workflows),
            }
        )
        node_ca = settings.sandbox.node_ca and self._path(settings.sandbox.node_ca)
        lock = self._path(settings.sandbox.packages_lock)
        sandbox = settings.sandbox.model_copy(update={"node_ca": node_ca, "packages_lock": lock})
        model = settings.search.model
        search = settings.search
        if is_folder(model):  # otherwise it stays unset, so that search knows that it was not configured
            search = search.model_copy(update={"model": self._path(model)})
        sections = {name: section.completed(self.variables) for name, section in _sections(settings)}
        own = {"servers": servers, "state": state, "search": search, "sandbox": sandbox}
        return settings.model_copy(update=sections | own)

    def _completed_server(self, server: ServerSettings, shared: Mapping[str, str]) -> ServerSettings:
        """The server with absolute paths, and with the environment that all servers get."""
        if server.command is not None:
            command = self._path(server.command) if _is_path(server.command) else server.command
            update = {"command": command, "cwd": self._start_folder(server), "env": {**shared, **server.env}}
            return server.model_copy(update=update)
        if server.headers_command is not None and _is_path((words := words_of(server.headers_command))[0]):
            return server.model_copy(update={"headers_command": shlex.join([self._path(words[0]), *words[1:]])})
        return server

    def _start_folder(self, server: ServerSettings) -> str | None:
        """Where a process starts; None leaves it to the host. A relative path that exists beside the file stays what
        it names."""
        if server.cwd is not None:
            return self._path(server.cwd)
        if server.share == "folder":
            return None
        paths = relative_paths(server.args, server.env.values())
        named = (it for it in (*server.args, *paths) if it.strip("./\\") and not os.path.isabs(it))  # noqa: PTH117
        if any(os.path.exists(os.path.join(self.base_dir, it)) for it in named):  # noqa: PTH110, PTH118
            return self._path(".")
        if paths and server.share != "person":
            return None
        return str(start_folder(self.base_dir))

    def _path(self, path: str) -> str:
        return os.path.normpath(self.base_dir / with_home(path))

    def _with_principal(self, settings: Settings) -> Settings:
        if not (given := self.environ.get(PRINCIPAL_VARIABLE)):
            return settings
        try:
            return settings.model_copy(update={"principal": principal_id(given)})
        except ValueError as error:
            raise SettingsError(f"${PRINCIPAL_VARIABLE} {error}") from None

    def _learn_secrets(self, settings: Settings) -> None:
        for server in settings.servers.values():
            self.secrets.add_server(server)
        for name, section in _sections(settings):
            self._learn_marked(name, section)
        for name, why in sorted(self.secrets.weak.items()):
            self.warnings.append(f"{self.problems.name}: {printable(name)}: {why}")

    def _learn_marked(self, place: str, section: Section) -> None:
        for name, declared in type(section).model_fields.items():
            value = getattr(section, name)
            if isinstance(value, Section):
                self._learn_marked(f"{place}.{name}", value)
            elif Holds.SECRET in declared.metadata:
                self.secrets.add_named(f"{place}.{name}", value)
            elif Holds.ADDRESS in declared.metadata:
                self.secrets.add_address(value)

    def _check_named_servers(self, settings: Settings, tree: Node) -> None:
        named = list(_named_servers(settings))
        if not named:
            return
        from codemode_server.config.named_servers import check_named_servers

        servers = {*settings.servers, *self.invalid_servers, *self.from_hosts}
        check_named_servers(named, settings, sorted(servers), tree, self.problems, self.warnings)
        if self.problems.is_outside_servers:
            raise self.problems.error()

    def _warn_of_unknown_groups(self, settings: Settings, tree: Node) -> None:
        oidc = settings.http.oidc
        if oidc is not None and oidc.groups_claim is not None:
            return  # the issuer knows others
        for index, rule in enumerate(settings.permissions.rules):
            for name in rule.principals or ():
                group = name.removeprefix(GROUP)
                if group == name or group in settings.groups:
                    continue
                node = checking.find(tree, ("permissions", "rules", index, "principals"))
                meant = nearest(group, tuple(settings.groups))
                hint = f"; did you mean {meant!r}?" if meant else ""
                self.warnings.append(f"{self.problems.name}:{node.line}: {node.where}: no group {group!r}{hint}")

    def _warn_of_missing_key(self, settings: Settings, tree: Node) -> None:
        if settings.state.database is None or settings.state.key is not None:
            return
        node = checking.find(tree, ("state", "database"))
        self.warnings.append(
            f"{self.problems.name}:{node.line}: {node.where}: without `state.key` each server makes a key of its own, "
            "and others on this database can't read what it records. Add `key: ${CODEMODE_KEY}` to `state`, and run "
            'once, beside this file: (umask 077; echo "CODEMODE_KEY=$(openssl rand -hex 32)" >> .env)'
        )


def _sections(settings: Settings) -> Iterator[tuple[str, Section]]:
    return ((name, it) for name, it in vars(settings).items() if isinstance(it, Section))


def _named_servers(settings: Settings) -> Iterator[NamedServer]:
    """Where the sections name servers."""
    for name, value in vars(settings).items():
        items = enumerate(value) if isinstance(value, tuple) else ()
        for place, section in (((name,), value), *(((name, index), it) for index, it in items)):
            if isinstance(section, Section):
                yield from (replace(it, place=(*place, *it.place)) for it in section.named_servers())


def _may_hold_secret(place: checking.KeyPath) -> bool:
    return _is_for_server(place) or looks_secret(str(place[-1]))


def _is_for_server(place: checking.KeyPath) -> bool:
    """True if a server gets the value at this place, which may be a secret."""
    return place[0] == "env" or (place[0] == "servers" and len(place) >= 3 and place[2] in _MAY_BE_SECRET)


class _LeftOut(Exception):
    """Raised for a value that can't be expanded, of a disabled server or of the environment of all servers."""


def _is_path(command: str) -> bool:
    return "/" in command or command.startswith("~")
