"""Saves an edited configuration file: checked by the loader, in one step, and never over somebody else's edit."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from codemode_server.config import file_edits
from codemode_server.config.file_edits import NotEditable, Syntax
from codemode_server.config.file_writing import write_copy, written_beside
from codemode_server.config.loading import load_place
from codemode_server.config.named_servers import spellings_of
from codemode_server.config.places import Change, ConfigFile, digest
from codemode_server.config.problems import no_server, printable
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.processes.file_lock import held
from codemode_server.support.file_records import Digests, TrustRecord

FIRST_FILE = """\
# The servers of codemode-server. `codemode-server config check` shows what it understood of this file.
# ${VAR} and ${VAR:-default} are filled in from the environment and from a `.env` beside this file.
# A saved file is read again while the server runs.
#
# servers:
#   time:                                   # a program; its Python package: from servers.time import …
#     command: uvx
#     args: [mcp-server-time]
#   linear:                                 # an address
#     url: https://mcp.linear.app/mcp
#     headers:
#       Authorization: Bearer ${LINEAR_TOKEN}
#
# All other settings have defaults; `codemode-server config schema` prints them with their documentation.

# What programs may call: the first rule that matches decides, and without one the preset. `careful` allows tools that
# say they only read, and asks you before others; `read-only` denies those, `trusted` allows all. A rule:
#   rules:
#     - allow: "linear/create_*"
permissions:
  preset: careful

servers:
"""


_LOCK = ".codemode-server.lock"
_LOCK_S = 60.0
"""Each of several commands at once takes a second or so."""
SECTIONS = ("servers", "mcpServers")
_RULES = ("permissions", "rules")


def switch_servers(place: ConfigFile, names: Sequence[str], *, is_enabled: bool) -> tuple[str, str]:
    """Switch all of these servers, or none if one can't be. Gives a line about it, and what the person has to do before
    the file is used, if anything. Blocks."""
    check_exists(place)
    with locked(place) as file:
        for name in names:
            file.text.set_enabled(name, is_enabled=is_enabled)
        file.save()
    done = f"{'enabled' if is_enabled else 'disabled'} in {place.path}: {', '.join(names)}"
    if file.needs_trust:
        return done, file.trust_needed
    return f"{done}; a running codemode-server notices in seconds", ""


def check_exists(place: ConfigFile) -> None:
    """Raises `CodemodeError` if there is no such file."""
    if not place.path.exists():
        raise CodemodeError(f"there is no {place.path}; `codemode-server init` writes a first one")


@contextmanager
def locked(place: ConfigFile) -> Iterator[EditedFile]:
    """The file, read while no other command edits it or the `.env` beside it. Raises `CodemodeError`."""
    lock = place.path.with_name(_LOCK)
    with ExitStack() as stack:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(lock, timeout_s=_LOCK_S))
        except TimeoutError:
            raise CodemodeError(f"another command is editing {printable(str(place.path))}; try again") from None
        except OSError as error:
            raise CodemodeError(f"can't lock {printable(str(lock))}: {error.strerror}") from error
        yield EditedFile(place)


class EditedFile:
    """One configuration file while it is edited; one that does not exist begins as `FIRST_FILE`."""

    def __init__(self, place: ConfigFile) -> None:
        self.place = place
        self.path = Path(os.path.realpath(place.path))
        """Without links, so that a link to the file stays one."""
        self._before = _content(self.path)
        self._trusted = self._trusted_digests()
        self.needs_trust = False
        """True if the person has to trust the saved file before it is used."""
        is_json = self.path.suffix in (".json", ".jsonc") or (self._before or b"").lstrip()[:1] == b"{"
        try:
            text = FIRST_FILE if self._before is None else self._before.decode()
        except UnicodeDecodeError:
            raise CodemodeError(f"{printable(str(place.path))} is not UTF-8; save it as UTF-8") from None
        self.text = ConfigText("{}" if is_json and self._before is None else text, is_json=is_json)

    @property
    def is_new(self) -> bool:
        return self._before is None

    @property
    def trust_needed(self) -> str:
        """Action required of the person if the file `needs_trust`."""
        return f"{self.place.path} or a file that it reads has changed since it was trusted; run: codemode-server trust"

    @property
    def folder(self) -> Path:
        """Where the loader looks for `.env`, and what relative paths start from: beside a link, not its target."""
        return self.place.path.parent

    @property
    def dotenv(self) -> Path:
        return self.folder / ".env"

    def save(
        self, storing: AbstractContextManager[Change | None] | None = None, *, keeps_copy: bool = False
    ) -> Path | None:
        """Write the edited text; gives the path of the copy of the old one, if one was kept. `storing` stores what the
        new text refers to, and undoes that if the text is not written after all; it gives the change of `.env`. Raises
        `CodemodeError`."""
        try:
            return self._save(storing or nullcontext(), keeps_copy=keeps_copy)
        except OSError as error:
            raise CodemodeError(f"can't write {printable(str(self.path))}: {error.strerror}") from error

    def _save(self, storing: AbstractContextManager[Change | None], *, keeps_copy: bool) -> Path | None:
        if self._before is not None and not self._mode() & stat.S_IWUSR:
            raise CodemodeError(f"{printable(str(self.path))} is read-only; make it writable first")
        content = self.text.text.encode()
        for folder in (self.folder, self.path.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with written_beside(self.place.path, content, 0o600) as trial:
            self._check(trial)
        with written_beside(self.path, content, self._mode()) as written:
            self._check_unchanged()
            copy = None
            if keeps_copy and self._before is not None:
                copy = write_copy(self.path, self._before, time.strftime(".%Y%m%d-%H%M%S.bak"), self._mode())
            with storing as change:
                self._check_unchanged()
                written.replace(self.path)
        if self.place.is_in_current_folder:
            self.needs_trust = not self._trust(content, change)
        return copy

    def _check(self, trial: Path) -> None:
        try:
            load_place(ConfigFile(trial))
        except SettingsError as error:
            message = str(error).replace(str(trial), str(self.place.path)).replace(trial.name, self.place.path.name)
            raise CodemodeError(f"nothing was changed, since the result could not be used:\n{message}") from error

    def _check_unchanged(self) -> None:
        if _content(self.path) != self._before:
            raise CodemodeError(f"{printable(str(self.path))} was changed by another program meanwhile; try again")

    def _trusted_digests(self) -> Digests | None:
        """Digests that the person trusted, if that is the content of a file in the current folder."""
        if not self.place.is_in_current_folder or self._before is None:
            return None
        record, loaded = TrustRecord.find(self.place.path), None
        with suppress(SettingsError):
            loaded = load_place(self.place, require_trust=False)
        if record is None or loaded is None or not record.covers(loaded.digests):
            return None
        return record.digests if loaded.digests.get(str(self.place.path)) == digest(self._before) else None

    def _trust(self, content: bytes, change: Change | None) -> bool:
        """Trust the new content of a trusted file, unless a file has another content than was trusted or written."""
        if self._trusted is None:
            return False
        expected = {**self._trusted, str(self.place.path): digest(content)}
        dotenv = str(self.dotenv)
        if change is not None:
            if self._trusted.get(dotenv) != change.before:
                return False
            expected[dotenv] = change.after
        loaded = load_place(self.place, require_trust=False)
        if not TrustRecord(path=self.place.path, digests=expected).covers(loaded.digests):
            return False
        TrustRecord(path=self.place.path, digests=dict(loaded.digests)).write()
        return True

    def _mode(self) -> int:
        return 0o600 if self._before is None else self.path.stat().st_mode & 0o777


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CodemodeError(f"can't read {printable(str(path))}: {error.strerror}") from error


class ConfigText:
    def __init__(self, text: str, *, is_json: bool = False) -> None:
        self.text = text
        self._syntax: Syntax = "json" if is_json else "yaml"

    def servers(self) -> dict[str, Any]:
        tree = self._data()
        sections = (tree.get(section) for section in SECTIONS)
        return {name: entry for section in sections if isinstance(section, dict) for name, entry in section.items()}

    def environment(self) -> dict[str, Any]:
        """The variables that all servers get."""
        found = self._data().get("env")
        return found if isinstance(found, dict) else {}

    def add_environment(self, variables: Mapping[str, str]) -> None:
        if variables:
            self.text = file_edits.with_members(self.text, self._syntax, ("env",), variables)

    def rules(self) -> Any:
        return file_edits.find(self._data(), _RULES)

    def protected(self) -> frozenset[str]:
        """The names and globs in `privacy.servers`."""
        servers = file_edits.find(self._data(), ("privacy", "servers"))
        return frozenset(servers) if isinstance(servers, dict) else frozenset()

    def add_servers(self, entries: Mapping[str, Mapping[str, Plain]]) -> None:
        if entries:
            self.text = file_edits.with_members(self.text, self._syntax, ("servers",), entries)

    def insert_rule(self, index: int | None, rule: Mapping[str, Plain]) -> None:
        """Put a permission rule before the one at `index`, or behind all of them if there are not more."""
        self.text = file_edits.with_item(self.text, self._syntax, _RULES, dict(rule), index)

    def remove_rule(self, index: int) -> None:
        self.text = file_edits.without_item(self.text, self._syntax, _RULES, index)

    def remove_server(self, name: str) -> list[str]:
        """Remove a server, and the names from `privacy.servers` that no server has then, since none may be. Returns
        these names."""
        path, spellings = self._path(name), spellings_of(self.servers())
        self.text = file_edits.without_member(self.text, self._syntax, path)
        gone = sorted(self.protected() & (spellings - spellings_of(self.servers())))
        for protected in gone:
            self.text = file_edits.without_member(self.text, self._syntax, ("privacy", "servers", protected))
        return gone

    def set_enabled(self, name: str, *, is_enabled: bool) -> None:
        path = self._path(name)
        entry = file_edits.find(self._data(), path)
        written = {key: entry[key] for key in ("enabled", "disabled") if isinstance(entry, dict) and key in entry}
        members = {key: is_enabled == (key == "enabled") for key in written or ("enabled",)}
        try:
            self.text = file_edits.with_members(self.text, self._syntax, path, members)
        except NotEditable as error:
            raise NotEditable(f"can't {'enable' if is_enabled else 'disable'} {printable(name)}: {error}") from None

    def set_member(self, name: str, key: str, value: Plain) -> None:
        """Write one member of a server's entry; None removes it. Of a mapping, only what differs is written."""
        path = (*self._path(name), key)
        before = file_edits.find(self._data(), path)
        if value is None:
            self.text = file_edits.without_member(self.text, self._syntax, path)
        elif not isinstance(value, Mapping) or not isinstance(before, dict):
            self.text = file_edits.with_members(self.text, self._syntax, path[:-1], {key: value})
        else:
            for gone in before.keys() - value.keys():
                self.text = file_edits.without_member(self.text, self._syntax, (*path, gone))
            changed = {it: value[it] for it in value if it not in before or str(before[it]) != value[it]}
            if changed:
                self.text = file_edits.with_members(self.text, self._syntax, path, changed)

    def set_effects(self, name: str, effects: Mapping[str, Plain]) -> None:
        """Write effects of the tools of a server by glob. Raises `CodemodeError` if an earlier glob decides."""
        path = (*self._path(name), "effects")
        written = file_edits.find(self._data(), path)
        for glob in effects:
            first = next((it for it in written or () if fnmatchcase(glob, it)), glob)
            if first != glob:
                raise CodemodeError(f"{first!r} in the effects of {printable(name)} decides before {glob!r}; edit it")
        self.text = file_edits.with_members(self.text, self._syntax, path, effects)

    def _path(self, name: str) -> tuple[str, str]:
        tree = self._data()
        for section in SECTIONS:
            if isinstance(tree.get(section), dict) and name in tree[section]:
                return section, name
        raise no_server(name, self.servers(), "this file")

    def _data(self) -> dict[str, Any]:
        return file_edits.read(self.text, self._syntax)
