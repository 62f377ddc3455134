"""Decides what an import adds to a configuration: names, equal servers, secrets, and what is still to be set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from codemode_server.config.document import parse
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.literal_secrets import SecretStorage, without_literal_secrets
from codemode_server.config.problems import Problems
from codemode_server.config.reading import Reading
from codemode_server.config.yaml_writing import Plain, block
from codemode_server.domain.errors import SettingsError

_CONNECTION = ("command", "args", "env", "cwd", "url", "transport", "headers", "headers_command")
"""Fields that say which server an entry is."""


@dataclass(frozen=True, slots=True)
class Addition:
    """One server that is added."""

    name: str
    entry: Mapping[str, Plain]
    rules: tuple[Mapping[str, str], ...]
    found: FoundServer

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False


@dataclass(slots=True)
class Plan:
    """What an import does."""

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
    for server in found:
        same = next((it for it in united.values() if _is_same(it, server)), None)
        if same is not None:
            skipped.append(f"{server.name} of {server.source}: the same as {same.name} of {same.source}")
            _restrict(same, server)
            continue
        name = _free_name(server, united)
        rules = [{key: _renamed(value, server.name, name) for key, value in rule.items()} for rule in server.rules]
        united[name] = replace(server, name=name, rules=rules)
    return list(united.values()), skipped


def plan(
    found: Sequence[FoundServer],
    existing: Mapping[str, Any],
    storage: SecretStorage,
    variables: Mapping[str, str],
    base_dir: Path,
) -> Plan:
    """What is added for these servers to a configuration that has the `existing` ones."""
    made = Plan()
    taken: dict[str, Any] = dict(existing)
    for server in found:
        added_before = dict(storage.added)
        entry = without_literal_secrets(server.name, server.entry, storage, server.from_env_file)
        if same := next(
            (it for it in (server.name, f"{server.name}-{server.host}") if _equal(taken.get(it), entry)), ""
        ):
            made.skipped.append(f"{server.name} of {server.source}: is there already as {same}")
            storage.added = added_before
            continue
        name = _free_name(server, taken)
        unset = [it for it in server.variables() if it not in variables]
        if not unset and (problem := _problem(name, entry, {**variables, **storage.added}, base_dir)):
            made.skipped.append(f"{server.name} of {server.source}: {problem}")
            storage.added = added_before
            continue
        taken[name] = entry
        rules = tuple({key: _renamed(it, server.name, name) for key, it in rule.items()} for rule in server.rules)
        made.additions.append(Addition(name, entry, rules, server))
        for variable in unset:
            why = server.asked.get(variable, "")
            made.to_set[variable] = "; ".join(filter(None, [made.to_set.get(variable) or why, name]))
    made.secrets = storage.added
    return made


def overruled(rules: Iterable[Mapping[str, str]], before: Any) -> list[str]:
    """Rules to be added that an `allow` rule before them makes void."""
    allowed = [str(it["allow"]) for it in before or [] if isinstance(it, Mapping) and it.get("allow")]
    patterns = [str(next(iter(rule.values()))) for rule in rules]
    return [it for it in patterns if any(fnmatchcase(it.partition("/")[0], one.partition("/")[0]) for one in allowed)]


def _problem(name: str, entry: Mapping[str, Plain], variables: Mapping[str, str], base_dir: Path) -> str:
    """Why the settings would refuse this entry."""
    problems = Problems("")
    try:
        tree = parse(block("servers", {name: entry}, 0), problems, is_json=False)
        problems.entries[f"servers.{name}"] = name
        reading = Reading(problems, [], variables, base_dir)
        reading.settings(tree)
    except SettingsError as error:
        lines = str(error).split("\n")
    else:
        lines = [line for of_server in reading.invalid_servers.values() for line in of_server]
    return "; ".join(re.sub(r"^:\d+: ", "", line) for line in lines)


def _is_same(one: FoundServer, other: FoundServer) -> bool:
    return one.name.casefold() == other.name.casefold() and _connection(one.entry) == _connection(other.entry)


def _equal(existing: Any, entry: Mapping[str, Plain]) -> bool:
    return isinstance(existing, Mapping) and _connection(existing) == _connection(entry)


def _connection(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _by_name(entry[key]) for key in _CONNECTION if entry.get(key)}


def _by_name(value: Any) -> Any:
    """The value with references to secrets by name alone: where one is stored makes no other server."""
    if isinstance(value, Mapping):
        return {key: _by_name(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_by_name(inner) for inner in value]
    return re.sub(r"\$\{keyring:([^}]*)\}", r"${\1}", value) if isinstance(value, str) else value


def _restrict(server: FoundServer, other: FoundServer) -> None:
    """Restricts the first as the second is; what is on in one host was on."""
    if other.is_enabled:
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
    server.rules += [rule for rule in other.rules if rule not in server.rules]


def _free_name(server: FoundServer, taken: Mapping[str, Any]) -> str:
    folded = {_folded(name) for name in taken}
    suffixes = [it for it in (server.project, server.host) if it]
    candidates = [
        server.name,
        *(f"{server.name}-{it}"[:64] for it in suffixes),
        *(f"{server.name}-{number}" for number in range(2, 10_000)),
    ]
    return next(name for name in candidates if _folded(name) not in folded)


def _folded(name: str) -> str:
    """Names that would become the same Python package."""
    return "".join(it if it.isalnum() else "_" for it in name).casefold()


def _renamed(text: str, before: str, after: str) -> str:
    return f"{after}/{text.removeprefix(f'{before}/')}" if text.startswith(f"{before}/") else text
