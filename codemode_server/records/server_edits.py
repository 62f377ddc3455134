"""Adds servers to the configuration, for commands and pages: entries from words that a person gave, their secrets apart
from them, and the configuration of a few servers, to try them."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from codemode_server.config import LoadedSettings
from codemode_server.config.expansion import read_dotenv
from codemode_server.config.file_writing import added_variables
from codemode_server.config.host_entries import entry_of
from codemode_server.config.host_reading import FoundServer, SourceServers, read_place
from codemode_server.config.hosts import System, all_places
from codemode_server.config.import_plan import ImportPlan, SecretNames, plan
from codemode_server.config.loading import load_place
from codemode_server.config.places import Change
from codemode_server.config.saving import EditedFile
from codemode_server.config.settings import SERVER_NAME, Settings
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.startup.stores import state_folder


class SecretDestination:
    def __init__(self, file: EditedFile, kind: str) -> None:
        self._dotenv_path = file.dotenv
        self._dotenv = read_dotenv(self._dotenv_path, {}, [], ".env")
        self._keyring = _keyring(file) if kind == "keyring" else None

    @property
    def place(self) -> str:
        return self._keyring.description if self._keyring is not None else str(self._dotenv_path)

    @property
    def variables(self) -> Mapping[str, str]:
        return {**self._dotenv, **os.environ}

    def new(self) -> SecretNames:
        if self._keyring is None:
            return SecretNames(self._dotenv, os.environ)
        stored = {name: self._keyring.get(name) or "" for name in self._keyring.names()}
        return SecretNames(stored, {}, "${keyring:%s}")

    @contextmanager
    def storing(self, values: Mapping[str, str]) -> Iterator[Change | None]:
        """Store the values, and remove them again if the body fails; gives the change of `.env`."""
        if self._keyring is None:
            with added_variables(self._dotenv_path, values) as change:
                yield change
            return
        with ExitStack() as undo:
            for name, value in values.items():
                undo.callback(self._keyring.remove, name)
                self._keyring.set(name, value)
            yield None
            undo.pop_all()


def save(file: EditedFile, made: ImportPlan, storage: SecretDestination) -> None:
    write(file, made)
    file.save(storage.storing(made.secrets))


def write(file: EditedFile, made: ImportPlan) -> None:
    """Edit the text of the file, which is not saved."""
    file.text.add_environment(made.env)
    file.text.add_servers({it.name: it.entry for it in made.additions})


def variables_left(file: EditedFile, before: Mapping[str, Any]) -> list[str]:
    """The variables in `.env` that the servers used `before`, and that none uses in the edited text. Blocks."""
    used, left = json.dumps(before), json.dumps(file.text.servers())
    stored = read_dotenv(file.dotenv, {}, [], ".env")
    return [it for it in stored if f"${{{it}" in used and f"${{{it}" not in left]


def host_files(hosts: Collection[str] = (), project: Path | None = None) -> Iterator[SourceServers]:
    """What the files of these hosts, or else of all, have: the user's own, and then those of the project. Blocks."""
    # Of servers of one name, that of a project gets the suffix.
    for place in sorted(all_places(System.current(), project), key=lambda it: it.scope == "project"):
        if not hosts or place.host.id in hosts:
            yield read_place(place, os.environ, project)


def planned_import(
    found: Sequence[FoundServer],
    file: EditedFile,
    storage: SecretDestination,
    shared: Mapping[str, str] = MappingProxyType({}),
) -> ImportPlan:
    """What taking over these servers would write, and `shared` to the environment of all."""
    return plan(found, file.text.servers(), storage.new(), storage.variables, file.folder, shared)


def entry_from(
    words: Sequence[str],
    env: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    transport: str | None = None,
    cwd: str | None = None,
) -> dict[str, Plain]:
    """The entry for an address or a command with its arguments; as `entry_of`."""
    entry = entry_of(words, transport=transport, cwd=cwd)
    for key, selector, given in (("env", "command", env), ("headers", "url", headers)):
        if given and selector not in entry:
            raise CodemodeError(f"{key} is for servers with a {selector} only")
        if given:
            entry[key] = dict(given)
    return entry


def pairs(texts: Iterable[str], separator: str, form: str) -> dict[str, str]:
    """Names and values from texts such as `NAME=value`. Raises `CodemodeError`, which names the `form`."""
    found: dict[str, str] = {}
    for text in texts:
        name, is_there, value = text.partition(separator)
        if not is_there or not name.strip():
            raise CodemodeError(f"{name!r} is not of the form {form}")
        found[name.strip()] = value.strip() if separator == ":" else value
    return found


def planned(file: EditedFile, name: str, entry: dict[str, Plain], storage: SecretDestination) -> ImportPlan:
    """What adding a server of this name would write. Raises `CodemodeError` if it can't be added."""
    if not re.fullmatch(SERVER_NAME, name):
        raise CodemodeError(
            f"{name!r} can't be a name: it takes up to 64 letters, digits, `.`, `_` and `-`, the first a letter "
            "or digit"
        )
    if name in file.text.servers():
        raise CodemodeError(f"there is a server {name!r} already; remove it first, or choose another name")
    found = FoundServer(name, entry, "the command line", "", "user")
    made = planned_import([found], file, storage)
    if not made.additions:
        raise CodemodeError("; ".join(made.skipped))
    return made


def only(loaded: LoadedSettings, names: Sequence[str]) -> LoadedSettings:
    servers = {name: server for name, server in loaded.settings.servers.items() if name in names}
    invalid = {name: lines for name, lines in loaded.invalid_servers.items() if name in names}
    settings = loaded.settings.model_copy(update={"servers": servers})
    return replace(loaded, settings=settings, invalid_servers=invalid, warnings=())


def switched_on(loaded: LoadedSettings, name: str) -> LoadedSettings:
    """With this server enabled, to try it once."""
    server = loaded.settings.servers.get(name)
    if server is None or server.enabled:
        return loaded
    servers = {**loaded.settings.servers, name: server.model_copy(update={"enabled": True})}
    return replace(loaded, settings=loaded.settings.model_copy(update={"servers": servers}))


def line_of(entry: Mapping[str, Any]) -> str:
    """The address, or the command with its arguments."""
    if "url" in entry:
        return str(entry["url"])
    args = entry.get("args")
    words = [str(entry.get("command", "")), *(map(str, args) if isinstance(args, (list, tuple)) else [])]
    return shlex.join(words).replace("'${", "${").replace("}'", "}")


def _keyring(file: EditedFile) -> EncryptedFileStore:
    from codemode_server.secrets.keyring_store import open_store

    settings = Settings() if file.is_new else load_place(file.place, require_trust=False).settings
    return open_store(state_folder(settings))
