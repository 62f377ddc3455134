"""Decides what an import adds to a configuration: names, equal servers, secrets, and what is still to be set."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from codemode_server.config.commands import start_the_same
from codemode_server.config.conversion import Reading
from codemode_server.config.document import parse
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.problems import Problems
from codemode_server.config.secrecy import NOT_SECRET_WORDS, SCHEME, Secrets, looks_secret, named_arguments
from codemode_server.config.settings import ServerSettings
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.support.known_tokens import KNOWN_TOKEN
from codemode_server.support.network_variables import NETWORK_VARIABLES

_CONNECTION = ("command", "args", "env", "cwd", "url", "transport", "headers", "headers_command")
_PASSWORD = re.compile(r"(?<=://)([^:/@?#\s]*):([^@/?#\s]+)@")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\{")
"""A `$${` is plain text."""
_MAX_SECRETS = 100
"""Maximum per server: the work grows with their square."""


@dataclass(frozen=True, slots=True)
class Addition:
    name: str
    entry: Mapping[str, Plain]
    found: FoundServer

    @property
    def is_enabled(self) -> bool:
        return self.entry.get("enabled") is not False


@dataclass(slots=True)
class ImportPlan:
    additions: list[Addition] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for all servers."""
    to_set: dict[str, str] = field(default_factory=dict)
    """Variables that are nowhere set, with the servers that need them."""


def unite(found: Iterable[FoundServer]) -> tuple[list[FoundServer], list[str]]:
    """One of several equal servers of one name, with the restrictions of all; others of one name get a suffix."""
    united: dict[str, FoundServer] = {}
    equal: dict[str, list[str]] = {}
    names = _Names()
    by_name: dict[str, list[FoundServer]] = {}
    for server in found:
        alike = by_name.setdefault(server.name.casefold(), [])
        same = next((it for it in alike if _connection(it.entry) == _connection(server.entry)), None)
        if same is not None:
            equal.setdefault(server.source, []).append(server.name)
            _restrict(same, server)
            continue
        name = names.take(server)
        united[name] = replace(server, name=name)
        alike.append(united[name])
    return list(united.values()), [f"{', '.join(it)} of {source}: the same as above" for source, it in equal.items()]


def plan(
    found: Sequence[FoundServer],
    existing: Mapping[str, Any],
    storage: SecretNames,
    variables: Mapping[str, str],
    base_dir: Path,
    shared: Mapping[str, str] = MappingProxyType({}),
) -> ImportPlan:
    """What these servers add to those that are `existing`, and `shared` to the environment of all."""
    env = without_literal_secrets("proxy", {"env": shared}, storage)["env"]
    made = ImportPlan(env=cast("Mapping[str, str]", env))
    names = _Names(existing)
    there: dict[str, list[str]] = {}
    for server in found:
        added_before = dict(storage.added)
        try:
            entry = without_literal_secrets(server.name, _without_shared(server.entry, shared), storage)
        except CodemodeError as error:
            made.skipped.append(f"{server.name} of {server.source}: {error}")
            continue
        alike = [it for it in existing if it == server.name or it.startswith(f"{server.name}-")]
        if same := next((it for it in alike if _is_same(existing[it], entry)), ""):
            shown = server.name if same == server.name else f"{server.name} (as {same})"
            there.setdefault(server.source, []).append(shown)
            storage.added = added_before
            continue
        unset = [it for it in server.variables() if it not in variables]
        _, problem = settings_of(server.name, entry, {**variables, **storage.added}, base_dir)
        if problem and not unset:
            made.skipped.append(f"{server.name} of {server.source}: {problem}")
            storage.added = added_before
            continue
        name = names.take(server)
        made.additions.append(Addition(name, entry, server))
        for variable in unset:
            made.to_set[variable] = ", ".join(filter(None, [made.to_set.get(variable), name]))
    made.skipped += (f"{', '.join(it)} of {source}: in your configuration already" for source, it in there.items())
    made.secrets = storage.added
    return made


def shared_variables(
    found: Iterable[FoundServer], environ: Mapping[str, str], existing: Mapping[str, Any]
) -> dict[str, str]:
    """The proxies and certificates that the environment has, or that the person's hosts give to more than one server,
    and that our servers don't all get yet."""
    counts = Counter(
        (name, value)
        for server in found
        if server.scope == "user"
        for name, value in _texts(server.entry, "env").items()
        if not _VARIABLE.search(value)
    )
    values = {name: value for (name, value), count in counts.items() if count > 1}
    values |= {name: value.replace("$", "$$") for name, value in environ.items() if value}
    return {name: values[name] for name in NETWORK_VARIABLES if name in values and name not in existing}


def _without_shared(entry: Mapping[str, Plain], shared: Mapping[str, str]) -> Mapping[str, Plain]:
    env = {name: value for name, value in _texts(entry, "env").items() if shared.get(name) != value}
    others = {key: value for key, value in entry.items() if key != "env"}
    return entry if not shared or "env" not in entry else {**others, "env": env} if env else others


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
    """The fields that say which server it is; where a secret is stored makes no other one, nor do proxies and
    certificates, which all servers may get."""
    fields = {key: entry[key] for key in _CONNECTION if entry.get(key)} if isinstance(entry, Mapping) else {}
    if isinstance(env := fields.pop("env", None), Mapping):
        own = {name: value for name, value in env.items() if name not in NETWORK_VARIABLES}
        fields |= {"env": own} if own else {}
    named: dict[str, Any] = json.loads(re.sub(r"\$\{keyring:([^}]*)\}", r"${\1}", json.dumps(fields)))
    return named


def _is_same(existing: Any, found: Mapping[str, Plain]) -> bool:
    """True if a server of the configuration is the found one, though something may have been added to it since."""
    ours, theirs = _connection(existing), _connection(found)
    if "command" not in ours or "command" not in theirs:
        return ours == theirs
    env = ours.get("env", {})
    return (
        ("cwd" not in theirs or ours.get("cwd") == theirs["cwd"])
        and start_the_same(_words(ours), _words(theirs), str(ours.get("cwd", "")))
        and all(env.get(name) == value for name, value in theirs.get("env", {}).items())
    )


def _words(fields: Mapping[str, Any]) -> list[str]:
    return [str(fields["command"]), *_args(fields)]


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
    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._folded = set(map(_folded, taken))

    def take(self, server: FoundServer) -> str:
        """Its name, or if that is taken its name with its project, its host or a number."""
        suffixes = chain(("", server.project, server.host), map(str, count(2)))
        names = (f"{server.name[: 63 - len(it)]}-{it}" if it else server.name for it in suffixes)
        name = next(it for it in names if _folded(it) not in self._folded)
        self._folded.add(_folded(name))
        return name


def _folded(name: str) -> str:
    """Names that would become the same Python package."""
    return "".join(it if it.isalnum() else "_" for it in name).casefold()


@dataclass(slots=True)
class SecretNames:
    stored: Mapping[str, str]
    """The values that are stored already, by name; an equal value keeps its name."""
    environ: Mapping[str, str]
    """Takes precedence over what is stored, so a name with another value there is not used."""
    reference: str = "${%s}"
    added: dict[str, str] = field(default_factory=dict, repr=False)

    def reference_to(self, value: str, name: str, server: str, *, is_variable: bool) -> str:
        """A reference to a new name for this value. `is_variable`: the name is a variable's already."""
        value = value.replace("$$", "$")
        base, prefix = _variable_name(name), _variable_name(server)
        prefixed = base if base.startswith(prefix) else f"{prefix}_{base}"
        first = [name] if is_variable and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else []
        candidates = chain(first, [prefixed], (f"{prefixed}_{number}" for number in count(2)))
        chosen = next(it for it in candidates if self._is_free(it, value))
        if chosen not in self.stored:
            self.added[chosen] = value
        return self.reference % chosen

    def _is_free(self, name: str, value: str) -> bool:
        values = (self.stored.get(name), self.added.get(name), self.environ.get(name))
        return all(it is None or it == value for it in values)


def without_literal_secrets(server: str, entry: Mapping[str, Plain], storage: SecretNames) -> dict[str, Plain]:
    """The entry with references in place of secrets. Raises `CodemodeError` if it has too many."""
    env, headers, args = _texts(entry, "env"), _texts(entry, "headers"), _args(entry)
    found = literal_secrets(entry)
    secrets = {it for it in found.values | found.short if not _REFERENCE.search(it)}
    if len(secrets) > _MAX_SECRETS:
        raise CodemodeError(f"has more than {_MAX_SECRETS} secrets, which no server needs")
    long = secrets & found.values
    # The parts of a secret, for instance the password in `user:password`, are put in place of the whole.
    parts = sorted((it for it in long if not any(it != part and part in it for part in long)), key=len, reverse=True)

    def reference(value: str, name: str, *, is_variable: bool = False) -> str:
        return storage.reference_to(value, name, server, is_variable=is_variable)

    def password(match: re.Match[str]) -> str:
        return match[0] if _REFERENCE.search(match[2]) else f"{match[1]}:{reference(match[2], 'PASSWORD')}@"

    def inside(text: str, name: str) -> str:
        """The text with references in place of the secrets within it."""
        text = _PASSWORD.sub(password, text)
        for secret in parts:
            if secret in _VARIABLE.sub("", text):
                text = text.replace(secret, reference(secret, name))
        return KNOWN_TOKEN.sub(lambda match: reference(match[0], name), text)

    def is_secret(name: str, value: str) -> bool:
        return looks_secret(name) and value.strip() in secrets and not _REFERENCE.search(value)

    def replaced(name: str, value: str, *, is_variable: bool = False) -> str:
        """The credentials behind `Bearer`, if this is the whole value of something secret; else what is inside."""
        match = SCHEME.fullmatch(value)
        if match is None or not is_secret(name, value) or value.casefold() in NOT_SECRET_WORDS:
            return inside(value, name)
        called = "TOKEN" if name.casefold() == "authorization" and not is_variable else name
        return f"{match[1] or ''}{reference(match[2], called, is_variable=is_variable)}"

    def argument(arg: str) -> str:
        for name, value in named_arguments(args):
            is_whole = arg == value or arg.removesuffix(value).rstrip()[-1:] in ("=", ":")
            if value and is_secret(name, value) and arg.endswith(value) and is_whole:
                return arg[: -len(value)] + replaced(name, value)
        return inside(arg, "KEY")

    changed = dict(entry)
    if env:
        changed["env"] = {name: replaced(name, it, is_variable=True) for name, it in env.items()}
    if headers:
        changed["headers"] = {name: replaced(name, it) for name, it in headers.items()}
    if args:
        changed["args"] = [argument(arg) for arg in args]
    if isinstance(url := entry.get("url"), str):
        changed["url"] = inside(url, "URL_KEY")
    if isinstance(oauth := entry.get("oauth"), Mapping):
        literal = {name for name, it in oauth.items() if isinstance(it, str) and it and not _REFERENCE.search(it)}
        changed["oauth"] = {
            name: reference(str(it), name) if name in literal and looks_secret(name) else it
            for name, it in oauth.items()
        }
    return changed


def literal_secrets(entry: Mapping[str, Plain]) -> Secrets:
    """The secrets that the entry of a server has, and references to some, which have `${` in them."""
    headers: dict[str, Any] = {"headers": _texts(entry, "headers"), "url": entry.get("url")}
    found = Secrets()
    found.add_server(ServerSettings.model_construct(env=_texts(entry, "env"), args=tuple(_args(entry)), **headers))
    return found


def _args(entry: Mapping[str, Plain]) -> list[str]:
    given = entry.get("args")
    return [str(arg) for arg in given] if isinstance(given, list | tuple) else []


def _texts(entry: Mapping[str, Plain], key: str) -> dict[str, str]:
    section = entry.get(key)
    return {name: str(value) for name, value in section.items()} if isinstance(section, Mapping) else {}


def _variable_name(text: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper() or "KEY"
    return f"_{name}" if name[0].isdigit() else name
