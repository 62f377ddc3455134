"""Decides what an import adds to a configuration: names, equal servers, secrets, and what is still to be set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from codemode_server.config.conversion import Reading
from codemode_server.config.document import parse
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.literal_secrets import SecretNames, without_literal_secrets
from codemode_server.config.problems import Problems
from codemode_server.config.yaml_writing import Plain, block
from codemode_server.domain.errors import CodemodeError, SettingsError

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
class ImportPlan:
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
        rules = [{key: _renamed(value, server.name, name) for key, value in rule.items()} for rule in server.rules]
        united[name] = replace(server, name=name, rules=rules)
        alike.append(united[name])
    return list(united.values()), skipped


def plan(
    found: Sequence[FoundServer],
    existing: Mapping[str, Any],
    storage: SecretNames,
    variables: Mapping[str, str],
    base_dir: Path,
) -> ImportPlan:
    """What is added for these servers to a configuration that has the `existing` ones."""
    made = ImportPlan()
    names = _Names(existing)
    for server in found:
        added_before = dict(storage.added)
        try:
            entry = without_literal_secrets(server.name, server.entry, storage, server.from_env_file)
        except CodemodeError as error:
            made.skipped.append(f"{server.name} of {server.source}: {error}")
            continue
        alike = [it for it in existing if it == server.name or it.startswith(f"{server.name}-")]
        if same := next((it for it in alike if _equal(existing[it], entry)), ""):
            made.skipped.append(f"{server.name} of {server.source}: is there already as {same}")
            storage.added = added_before
            continue
        name = names.free_for(server)
        unset = [it for it in server.variables() if it not in variables]
        if not unset and (problem := _problem(name, entry, {**variables, **storage.added}, base_dir)):
            made.skipped.append(f"{server.name} of {server.source}: {problem}")
            storage.added = added_before
            continue
        names.add(name)
        rules = tuple({key: _renamed(it, server.name, name) for key, it in rule.items()} for rule in server.rules)
        made.additions.append(Addition(name, entry, rules, server))
        for variable in unset:
            why = server.asked.get(variable, "")
            made.to_set[variable] = "; ".join(filter(None, [made.to_set.get(variable) or why, name]))
    made.secrets = storage.added
    return made


def overruled(rules: Iterable[Mapping[str, str]], before: Any) -> list[str]:
    """Rules to be added that an `allow` rule before them makes void, for some of their tools at least."""
    allowed = [pattern for it in before or [] if isinstance(it, Mapping) and (pattern := _allowed_pattern(it))]
    patterns = [str(next(iter(rule.values()))) for rule in rules]
    return [it for it in patterns if any(_overlap(it, one) for one in allowed)]


def _allowed_pattern(rule: Mapping[str, Any]) -> str:
    """What a rule as it is written allows, for some arguments at least; empty if it allows nothing."""
    if rule.get("decision") == "allow":
        return f"{rule.get('server') or '*'}/{rule.get('tool') or '*'}"
    return str(rule.get("allow") or "")


def _overlap(pattern: str, other: str) -> bool:
    """Whether one rule's pattern of servers matches the other's, and the same of tools."""
    (server, _, tool), (other_server, _, other_tool) = pattern.partition("/"), other.partition("/")
    pairs = ((server, other_server), (tool or "*", other_tool or "*"))
    return all(fnmatchcase(one, two) or fnmatchcase(two, one) for one, two in pairs)


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
    """Restricts the first as the second is; what is on in one of the person's own files was on."""
    if other.is_enabled and other.scope == "user":
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


class _Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._folded = set(map(_folded, taken))
        self._numbers: Counter[str] = Counter()

    def free_for(self, server: FoundServer) -> str:
        """Its name, or if that is taken its name with its project, its host or a number."""
        for suffix in ("", server.project, server.host):
            name = f"{server.name[: 63 - len(suffix)]}-{suffix}" if suffix else server.name
            if _folded(name) not in self._folded:
                return name
        while True:
            self._numbers[server.name] += 1
            name = f"{server.name[:55]}-{self._numbers[server.name] + 1}"
            if _folded(name) not in self._folded:
                return name

    def add(self, name: str) -> None:
        self._folded.add(_folded(name))

    def take(self, server: FoundServer) -> str:
        name = self.free_for(server)
        self.add(name)
        return name


def _folded(name: str) -> str:
    """Names that would become the same Python package."""
    return "".join(it if it.isalnum() else "_" for it in name).casefold()


def _renamed(text: str, before: str, after: str) -> str:
    return f"{after}/{text.removeprefix(f'{before}/')}" if text.startswith(f"{before}/") else text
