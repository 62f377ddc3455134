"""Finds and loads the configuration file: text → tree → our format → variables → settings → secrets.

A missing file is not an error, but a path that was given and does not exist is. An untrusted file in the current folder
is skipped.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from codemode_server.config import places
from codemode_server.config.conversion import Reading
from codemode_server.config.document import EMPTY, Node, parse
from codemode_server.config.expansion import read_dotenv
from codemode_server.config.places import (
    MAX_BYTES,
    NAME,
    VARIABLE,
    ConfigFile,
    Stamp,
    read_source,
    stamp_of,
)
from codemode_server.config.problems import Problems, printable
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError
from codemode_server.secrets.references import Reference, Resolver
from codemode_server.secrets.store import stamp_file
from codemode_server.support.file_records import Digests, TrustRecord, digest_of_file, is_trusted
from codemode_server.support.private_files import others_may_read
from codemode_server.support.redaction import Redactor

_BEGINS_AS_JSON = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*+\{", re.DOTALL)
_MAX_PATH_CHARACTERS = 500
"""Characters of a path in a message; whoever made the folder chose them."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """A loaded configuration. Its `repr` shows no values."""

    settings: Settings = field(repr=False)
    path: Path | None
    base_dir: Path
    warnings: tuple[str, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that must never appear in logs, traces, errors, stubs or the sandbox; see `secrecy`."""
    expanded_from: frozenset[str] = frozenset()
    short_secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Secrets too short or too common to be masked everywhere; masked by `describe`."""
    invalid_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Servers disabled because of their entries, each with its problems as `file:line: key: …`."""
    unused_file: str = ""
    """Which file in the current folder is not used, why, and how to use it."""
    place: ConfigFile | None = None
    digests: Digests = field(default_factory=dict, repr=False, compare=False)
    as_written: Node = field(default=EMPTY, repr=False, compare=False)
    """The file in our format, before variables were expanded."""
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    references: Mapping[Reference, frozenset[str]] = field(default_factory=dict)
    """See `Reading.references`."""
    stamp: Stamp = field(default=(), repr=False, compare=False)

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets."""
        return Redactor(self.secrets)

    @property
    def is_trusted(self) -> bool:
        """True if the servers of the file may be started: it needs no trust, or the person has trusted it."""
        place = self.place
        return place is None or not place.is_in_current_folder or is_trusted(place.path, self.digests)

    @property
    def server_errors(self) -> tuple[str, ...]:
        """Errors of single servers, a line each."""
        return tuple(line for lines in self.invalid_servers.values() for line in lines)

    @property
    def all_messages(self) -> tuple[str, ...]:
        """Every message for the person, a line each: errors of single servers, the file that is not used, warnings."""
        return (*self.server_errors, *self.other_messages)

    @property
    def other_messages(self) -> tuple[str, ...]:
        """The messages that are not about the entry of one server."""
        return tuple(line for line in (self.unused_file, *self.warnings) if line)

    @property
    def messages_for_model(self) -> tuple[str, ...]:
        """Messages that the model should pass on: which file is not used, and why there are no servers."""
        notices = (
            [f"{self.unused_file} (that is the user's decision), then start a new session"] if self.unused_file else []
        )
        if self.path is None:
            notices += self.warnings
        elif not (self.settings.servers or self.invalid_servers):
            path = printable(str(self.path), _MAX_PATH_CHARACTERS)
            notices.append(f"{path} has no servers; the user adds them under `servers:` and saves the file")
        return tuple(notices)


class Untrusted(SettingsError):
    """A file in the current folder has content that the person has not trusted."""

    def __init__(self, path: Path, *, is_changed: bool) -> None:
        self.is_changed = is_changed
        """True if different content of the file was trusted."""
        super().__init__(
            f"{printable(str(path), _MAX_PATH_CHARACTERS)} is not used, since "
            f"{'it has changed since it was trusted' if is_changed else 'this folder is not trusted'}. To use it, run: "
            f"codemode-server trust {printable(shlex.quote(str(path.parent)), _MAX_PATH_CHARACTERS)}"
        )


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    require_trust: bool = True,
    resolve: bool = True,
) -> LoadedSettings:
    """The configuration at `path`, or wherever it is.

    References to secrets are resolved, which may take seconds. Without `resolve`, or without `require_trust`, no
    command is run; without `resolve`, or if the file is not trusted, no secret is read. No server may be started then.
    A mistake in one server's entry turns off that server alone (`invalid_servers`). Any other raises `SettingsError`
    with all errors: what limits programs must never be skipped."""
    environ = os.environ if environ is None else environ
    cwd = places.current_folder() if cwd is None else cwd
    if place := places.asked_for(path, environ, cwd):
        return _loaded(place, environ, cwd, require_trust=require_trust, resolve=resolve)
    unused_file = ""
    if place := places.in_folder(cwd):
        try:
            return _loaded(place, environ, cwd, require_trust=require_trust, resolve=resolve)
        except Untrusted as untrusted:
            unused_file = str(untrusted)
    if not places.user_file().is_file():
        return replace(_no_file(environ, cwd, is_untrusted=bool(unused_file)), unused_file=unused_file)
    place = ConfigFile(places.user_file())
    loaded = _loaded(place, environ, cwd, require_trust=require_trust, resolve=resolve)
    return replace(loaded, unused_file=unused_file)


def locate(
    path: Path | None = None, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> ConfigFile:
    """The file that `load` reads, or would read if it existed."""
    environ = os.environ if environ is None else environ
    cwd = places.current_folder() if cwd is None else cwd
    if place := places.asked_for(path, environ, cwd, must_exist=False):
        return place
    if place := places.in_folder(cwd):
        try:
            _loaded(place, environ, cwd, resolve=False)
        except Untrusted:
            return ConfigFile(places.user_file())
        except SettingsError:
            pass  # trusted, with a mistake in it
        return place
    return ConfigFile(places.user_file())


def load_place(
    place: ConfigFile,
    environ: Mapping[str, str] | None = None,
    *,
    require_trust: bool = True,
    resolve: bool = True,
) -> LoadedSettings:
    """The configuration in this file; arguments as in `load`. Raises `SettingsError`."""
    environ = os.environ if environ is None else environ
    if not place.path.exists():
        raise SettingsError(f"{place.path}: there is no such file; create it again")
    return _loaded(place, environ, places.current_folder(), require_trust=require_trust, resolve=resolve)


def _loaded(
    place: ConfigFile, environ: Mapping[str, str], cwd: Path, *, require_trust: bool = True, resolve: bool
) -> LoadedSettings:
    path, dotenv_path = place.path, place.path.with_name(".env")
    needs_trust = place.is_in_current_folder and require_trust
    record = TrustRecord.find(path) if needs_trust else None
    if needs_trust and record is None:
        raise Untrusted(path, is_changed=False)
    stamp = stamp_of_place(place)
    warnings: list[str] = []
    digests: dict[str, str] = {}
    problems = Problems(_shown(path, cwd))
    content = _read(path, digests, problems)
    dotenv = read_dotenv(dotenv_path, digests, warnings, _shown(dotenv_path, cwd))
    if record is not None and not record.covers(digests):
        raise Untrusted(path, is_changed=True)
    text = _decoded(content, problems)
    variables = {**dotenv, **environ}
    tree, from_hosts = _in_our_form(path, text, problems, warnings, variables)
    new_resolver = None
    if resolve:
        new_resolver = partial(
            Resolver,
            base_dir=path.parent,
            environ=environ,
            may_read=not place.is_in_current_folder or needs_trust or is_trusted(path, digests),
            may_run=require_trust,
            set_arguments=_set_arguments(tree, path, cwd),
        )
    reading = Reading(problems, warnings, variables, path.parent, new_resolver, from_hosts, environ)
    settings = reading.settings(tree)
    has_literal_secret = any(secret in text for secret in reading.secrets.values)
    warnings += _readable_by_others(digests, {path} if not has_literal_secret else set(), cwd)
    if place.is_in_current_folder and settings.sandbox.packages:  # what programs can import is what this file names
        lock = Path(settings.sandbox.packages_lock)
        digests[str(lock)] = digest_of_file(lock)
        if record is not None and not record.covers(digests):
            raise Untrusted(path, is_changed=True)
    return LoadedSettings(
        settings=settings,
        path=path,
        base_dir=path.parent,
        warnings=tuple(warnings),
        secrets=frozenset(reading.secrets.values),
        short_secrets=frozenset(reading.secrets.short),
        expanded_from=frozenset(reading.used),
        invalid_servers=reading.invalid_servers,
        place=place,
        digests=digests,
        as_written=tree,
        dotenv=dotenv,
        references={reference: frozenset(servers) for reference, servers in reading.references.items()},
        stamp=stamp,
    )


def _set_arguments(tree: Node, path: Path, cwd: Path) -> str:
    """Arguments for `secrets set` to write to the state folder of this file."""
    has_own_folder = "dir" in tree.entries.get("state", EMPTY).entries
    return f" --config {printable(shlex.quote(_shown(path, cwd)), _MAX_PATH_CHARACTERS)}" if has_own_folder else ""


def _readable_by_others(digests: Digests, harmless: Container[Path], cwd: Path) -> Iterator[str]:
    """A warning for each file with secrets that other users of this machine can read."""
    for name, digest in digests.items():
        path = Path(name)
        if digest and path not in harmless and others_may_read(path):
            shown = printable(_shown(path, cwd), _MAX_PATH_CHARACTERS)
            command = f"chmod 600 {printable(shlex.quote(str(path)), _MAX_PATH_CHARACTERS)}"
            yield f"{shown}: other users of this machine can read the secrets in it; run: {command}"


def _in_our_form(
    path: Path, text: str, problems: Problems, warnings: list[str], variables: Mapping[str, str]
) -> tuple[Node, frozenset[str]]:
    """The file as a tree with all servers under `servers`, and the names of those that were under `mcpServers`."""
    is_json = path.suffix in (".json", ".jsonc") or _BEGINS_AS_JSON.match(text) is not None
    tree = parse(text, problems, is_json=is_json)
    tree = tree.with_value({key: it for key, it in tree.entries.items() if key != "$schema" and key[:2] != "x-"})
    problems.entries |= {it.where: name for name, it in tree.entries.get("servers", EMPTY).entries.items()}
    if "mcpServers" not in tree.entries:
        return tree, frozenset()
    from codemode_server.config.mcp_servers import with_mcp_servers

    return with_mcp_servers(tree, problems, warnings, variables, is_json=is_json)


def stamp_of_place(place: ConfigFile) -> Stamp:
    """The state that a configuration's files are in."""
    files = (place.path, place.path.with_name(".env"))
    # Includes the trust record and changes of secrets, so that a running server notices them.
    return stamp_of(*files, stamp_file(), *([TrustRecord.place(place.path)] if place.is_in_current_folder else []))


def _no_file(environ: Mapping[str, str], cwd: Path, *, is_untrusted: bool) -> LoadedSettings:
    user = places.user_file()
    state = f"{cwd / NAME} is not trusted, and {user} does not exist"
    none = f"and neither {cwd / NAME} nor {user} exists"
    message = (
        f"no configuration file, so there are no servers: ${VARIABLE} is not set, {state if is_untrusted else none}. "
        "`codemode-server init` creates the latter; `--config FILE` uses another file"
    )
    reading = Reading(Problems(""), [], environ, user.parent, environ=environ)
    settings = reading.settings(EMPTY)
    return LoadedSettings(settings, None, user.parent, (message,), frozenset(reading.secrets.values))


def _shown(path: Path, cwd: Path) -> str:
    return str(path.relative_to(cwd) if cwd.name and path.is_relative_to(cwd) else path)


def _read(path: Path, digests: dict[str, str], problems: Problems) -> bytes:
    try:
        content = read_source(path, digests)
    except OSError as error:
        problems.add(0, "", f"can't be read: {error.strerror}")
        raise problems.error() from None
    if len(content) > MAX_BYTES:
        problems.add(0, "", "is larger than 1 MiB, which no configuration needs")
        raise problems.error()
    return content


def _decoded(content: bytes, problems: Problems) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add(content.count(b"\n", 0, error.start) + 1, "", "is not UTF-8 here; save the file as UTF-8")
    raise problems.error()
