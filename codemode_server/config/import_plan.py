"""Decides what an import adds to a configuration: names, equal servers, secrets, and what is still to be set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from codemode_server.config.conversion import Reading
from codemode_server.config.document import parse
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.literal_secrets import SecretNames, without_literal_secrets
from codemode_server.config.problems import Problems
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.settings import ServerSettings

_CONNECTION = ("command", "args", "env", "cwd", "url", "transport", "headers", "headers_command")
"""Fields that say which server an entry is."""


@dataclass(frozen=True, slots=True)
class Addition:
    """One server that is added."""

    name: str
    entry: Mapping[str, Plain]
    found: FoundServer

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False


@dataclass(slots=True)
class ImportPlan:
    """Plan of an import."""

    additions: list[Addition] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Servers that are not added and why, a line each."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Values that are stored apart from the configuration, by name."""
    to_set: dict[str, str] = field(default_factory=dict)
    """Variables that are nowhere set, with the servers that need them."""


def unite(found: Iterable[FoundServer]) -> tuple[list[FoundServer], list[str]]:
    """One of several equal servers of one name, with the restrictions of all; others of one name get a suffix."""
    united: dict[str, FoundServer] = {}
    skipped: list[str] = []
    names = _Names()
    by_name: dict[str, list[FoundServer]] = {}
    """By the name in the host's file, case-folded."""
    for server in found:
        alike = by_name.setdefault(server.name.casefold(), [])
        same = next((it for it in alike if _connection(it.entry) == _connection(server.entry)), None)
        if same is not None:
            skipped.append(f"{server.name} of {server.source}: the same as {same.name} of {same.source}")
            _restrict(same, server)
            continue
        name = names.take(server)
        united[name] = replace(server, name=name)
        alike.append(united[name])
    return list(united.values()), skipped


def plan(
    found: Sequence[FoundServer],
    existing: Mapping[str, Any],
    storage: SecretNames,
    variables: Mapping[str, str],
    base_dir: Path,
) -> ImportPlan:
    """Plans the import of these servers into a configuration that has the `existing` ones."""
    made = ImportPlan()
    names = _Names(existing)
    for server in found:
        added_before = dict(storage.added)
        try:
            entry = without_literal_secrets(server.name, server.entry, storage)
        except CodemodeError as error:
            made.skipped.append(f"{server.name} of {server.source}: {error}")
            continue
        alike = [it for it in existing if it == server.name or it.startswith(f"{server.name}-")]
        if same := next((it for it in alike if _connection(existing[it]) == _connection(entry)), ""):
            made.skipped.append(f"{server.name} of {server.source}: is there already as {same}")
            storage.added = added_before
            continue
        name = names.take(server)
        unset = [it for it in server.variables() if it not in variables]
        _, problem = settings_of(name, entry, {**variables, **storage.added}, base_dir)
        if problem and not unset:
            made.skipped.append(f"{server.name} of {server.source}: {problem}")
            storage.added = added_before
            names.release(name)
            continue
        made.additions.append(Addition(name, entry, server))
        for variable in unset:
            made.to_set[variable] = ", ".join(filter(None, [made.to_set.get(variable), name]))
    made.secrets = storage.added
    return made


def settings_of(
    name: str, entry: Mapping[str, Plain], variables: Mapping[str, str], base_dir: Path
) -> tuple[ServerSettings | None, str]:
    """The settings that this entry gives; or None, and why it is refused."""
    problems = Problems("")
    problems.entries[f"servers.{name}"] = name
    reading = Reading(problems, [], variables, base_dir)
    try:
        settings = reading.settings(parse(json.dumps({"servers": {name: entry}}), problems, is_json=True))
        lines = [line for of_server in reading.invalid_servers.values() for line in of_server]
    except SettingsError as error:
        return None, re.sub(r"(?m)^:\d+: ", "", str(error)).replace("\n", "; ")
    return settings.servers.get(name), "; ".join(re.sub(r"^:\d+: ", "", line) for line in lines)


def _connection(entry: Any) -> dict[str, Any]:
    """The fields that say which server it is; where a secret is stored makes no other one."""
    fields = {key: entry[key] for key in _CONNECTION if entry.get(key)} if isinstance(entry, Mapping) else {}
    named: dict[str, Any] = json.loads(re.sub(r"\$\{keyring:([^}]*)\}", r"${\1}", json.dumps(fields)))
    return named


def _restrict(server: FoundServer, other: FoundServer) -> None:
    """Restricts the first as the second is; what is on in one of the person's own files was on."""
    server.is_unclear |= other.is_unclear
    if server.is_unclear:
        server.entry["enabled"] = False
    elif other.is_enabled and other.scope == "user":
        server.entry.pop("enabled", None)
    mine: Any = dict(server.entry.get("tools") or {})  # type: ignore[arg-type]
    theirs: Any = other.entry.get("tools") or {}
    if exclude := list(dict.fromkeys([*mine.get("exclude", []), *theirs.get("exclude", [])])):
        mine["exclude"] = exclude
    if "include" in theirs and theirs["include"] != ["*"]:
        before = mine.get("include", ["*"])
        mine["include"] = [it for it in theirs["include"] if it in before or before == ["*"]]
    if mine:
        server.entry["tools"] = mine


class _Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._folded = set(map(_folded, taken))

    def take(self, server: FoundServer) -> str:
        """Its name, or if that is taken its name with its project, its host or a number."""
        suffixes = chain(("", server.project, server.host), map(str, count(2)))
        names = (f"{server.name[: 63 - len(it)]}-{it}" if it else server.name for it in suffixes)
        name = next(it for it in names if _folded(it) not in self._folded)
        self._folded.add(_folded(name))
        return name

    def release(self, name: str) -> None:
        self._folded.remove(_folded(name))


def _folded(name: str) -> str:
    """Names that would become the same Python package."""
    return "".join(it if it.isalnum() else "_" for it in name).casefold()
