"""Plans and makes the change of a host's file that starts this product, and takes it back. A plan is shown to the
person; only then the file is replaced, if it is still the same."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from codemode_server.config import file_edits, host_file, places
from codemode_server.config.file_edits import KeyPath, NotEditable, find
from codemode_server.config.host_entries import command_words, names_this_server
from codemode_server.config.host_file import ConnectRecord, HostFile
from codemode_server.config.hosts import HostPlace, KnownHost
from codemode_server.config.imported import ComparedServer, compared, secrets_of
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.places import with_home
from codemode_server.support.extras import Installer, installer
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import escaped, one_line

NAME = "codemode"
_COMMAND = "codemode-server"
_COMMAND_KEYS = ("command", "cmd", "args", "transport")
_ENV_KEYS = ("env", "environment", "envs")
_CONTEXT_LINES = 3
_MAX_DIFF_LINES = 2_000
_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class HostFileChange:
    """One change of one file, not yet made."""

    place: HostPlace
    file: HostFile
    content: bytes | None = field(repr=False)
    """None to remove the file."""
    record: ConnectRecord | None
    """The record to store; None to delete it."""
    notes: Sequence[str] = ()
    removed: Sequence[ComparedServer] = ()
    """The servers that it takes out, since our configuration has them."""

    @property
    def is_empty(self) -> bool:
        return self.content == self.file.content

    def difference(self) -> list[str]:
        """The change as lines of a unified diff, without the secrets of servers."""
        host, texts = self.place.host, [(it or b"").decode() for it in (self.file.content, self.content)]
        secrets = (secrets_of(host, self.file.path, file_edits.read(text, host.syntax)) for text in texts)
        mask = Redactor(frozenset(chain.from_iterable(secrets))).text
        old, new = (text.splitlines() for text in texts)
        start = _common(old, new)  # difflib takes time that grows with the square of the lines
        end = _common(old[start:][::-1], new[start:][::-1])
        first = max(0, start - _CONTEXT_LINES)
        old, new = (lines[first : len(lines) - max(0, end - _CONTEXT_LINES)] for lines in (old, new))
        if len(old) + len(new) > _MAX_DIFF_LINES:
            return [f"(the change is too long to be shown: {len(old):,} lines become {len(new):,})"]
        lines = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""))[3:]
        return [f"@@ line {first + 1} @@", *(one_line(mask(line), _MAX_CHARACTERS) for line in lines)] if lines else []


def snippet(host: KnownHost, launch: ProductCommand) -> str:
    """Our entry as a file of this host that has nothing else."""
    return _with_entry("", host, host.servers, NAME, own_entry(host, launch, None))


def plan_connect(
    place: HostPlace,
    within: Path,
    launch: ProductCommand,
    *,
    is_command_given: bool = False,
    ours: LoadedSettings | None = None,
    takes_out: bool = True,
) -> HostFileChange:
    """The change that puts our entry into the file and, if it `takes_out`, takes out the servers that `ours` has too.
    `is_command_given`: an entry of ours that is there gets this command although its own would work. Raises
    `NotEditable`."""
    host = place.host
    found = host_file.read_file(place.path, within, host.syntax)
    text = found.text()
    data = file_edits.read(text, host.syntax)
    path = servers_path(host, data)
    servers = file_edits.find(data, path)
    name, entry, notes = _entry(host, launch, servers, is_command_given=is_command_given)
    there_too = list(compared(host, found.path, data, path, ours))
    removed = [it for it in there_too if it.ours] if takes_out else []
    for it in removed:
        text = file_edits.without_member(text, host.syntax, it.path)
    notes += _comparison_notes(there_too, is_kept=not takes_out)
    there = file_edits.find(data, (*path, name))
    if there is None or {**there, "name": ""} != {**entry, "name": ""}:
        text = _with_entry(text, host, path, name, entry)
    content = text.encode()
    earlier = ConnectRecord.find(found.path) if any(True for _ in own_entries(servers)) else None
    before = earlier or ConnectRecord(path=found.path, before=found.digest, after=found.digest)
    record = before.model_copy(
        update={
            "after": places.digest(content),
            "removed": [*before.removed, *((it.path, file_edits.find(data, it.path)) for it in removed)],
            "is_mixed": before.is_mixed or before.after != found.digest,
        }
    )
    return HostFileChange(place, found, content, record, notes, removed)


def _comparison_notes(servers: Sequence[ComparedServer], *, is_kept: bool) -> list[str]:
    """Lines on the servers that leave the file, and on those that stay, by the reason."""
    groups: dict[str, list[str]] = {}
    for it in servers:
        renamed = f" (there '{it.ours}')" if it.ours not in ("", it.name) else ""
        has = "which your configuration has too" if it.ours else it.why_not
        groups.setdefault(f"{'removes' if it.ours and not is_kept else 'leaves'} {{}}, {has}", []).append(
            f"'{escaped(it.name)}'{renamed}"
        )
    return [line.format(", ".join(names)) for line, names in groups.items()]


def plan_disconnect(place: HostPlace, within: Path) -> HostFileChange:
    """The change that restores the file, or edits it if somebody else has changed it since. Raises `NotEditable`."""
    host = place.host
    found = host_file.read_file(place.path, within, host.syntax)
    record = ConnectRecord.find(found.path)
    if record is not None and record.after == found.digest and not record.is_mixed:
        if record.backup is None:
            return HostFileChange(place, found, None, None, ["the file did not exist before; it is removed"])
        content = host_file.read_plain(record.backup)
        if places.digest(content) == record.before:
            notes = ["nobody has changed the file since; its old bytes are restored"]
            return HostFileChange(place, found, content, None, notes)
    text = found.text()
    data = file_edits.read(text, host.syntax)
    path = servers_path(host, data)
    names = [name for name, _ in own_entries(file_edits.find(data, path))]
    if not names and record is None:
        raise NotEditable("there is no entry of codemode-server in it, so there is nothing to disconnect")
    notes = ["the file has changed since `connect`, so only what `connect` did is taken back"] if record else []
    for name in names:
        text = file_edits.without_member(text, host.syntax, (*path, name))
    for (*at, name), entry in record.removed if record is not None else ():
        if file_edits.find(data, (*at, name)) is None:
            text = _with_entry(text, host, tuple(at), name, entry)
            notes.append(f"puts back '{escaped(name)}'")
        else:
            notes.append(f"'{escaped(name)}' is there again; it stays as it is")
    backup = record.backup if record is not None else found.path.with_name(f"{found.path.name}{host_file.SUFFIX}")
    if backup is not None and backup.is_file():
        notes.append(f"the file as it was before is in {escaped(str(backup))}")
    left = file_edits.read(text, host.syntax)
    is_empty = left.keys() <= {path[0]} and not any(left.values())
    if record is not None and not record.before and is_empty:
        return HostFileChange(place, found, None, None, [*notes, "nothing else is in the file; it is removed"])
    return HostFileChange(place, found, text.encode(), None, notes)


def apply(plan: HostFileChange) -> Path | None:
    """Make the change; gives the new backup, if there is one. Raises `NotEditable`; `OSError`, `NotPrivate` before the
    file is changed, if the record can't be written."""
    before = ConnectRecord.find(plan.file.path)
    if plan.record is None:
        if plan.content is None:
            host_file.remove_file(plan.file)
        else:
            host_file.replace_file(plan.file, plan.content)
        ConnectRecord.forget(plan.file.path)
        if before is not None and before.backup and places.digest(plan.content) == before.before:
            before.backup.unlink(missing_ok=True)
        return None
    is_first = not plan.record.backup and plan.record.before == plan.file.digest
    backup = host_file.write_backup(plan.file) if is_first else None
    (plan.record.model_copy(update={"backup": backup}) if is_first else plan.record).write()
    try:
        host_file.replace_file(plan.file, plan.content or b"")
    except BaseException:
        if before is None:
            ConnectRecord.forget(plan.file.path)
        else:
            before.write()
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise
    return backup


def _entry(
    host: KnownHost, launch: ProductCommand, servers: Any, *, is_command_given: bool
) -> tuple[str, dict[str, Any], list[str]]:
    """The name and the value that our entry shall have, and notes about it."""
    wanted = own_entry(host, launch, servers)
    for name, there in own_entries(servers):
        is_off = there.get("disabled") is True or there.get("enabled") is False
        notes = [f"'{escaped(name)}' is switched off in this file; it stays off"] if is_off else []
        return name, updated(there, wanted, is_command_given=is_command_given), notes
    names = {name for name, _ in named(servers)}
    name = NAME if NAME not in names else f"{NAME}-server"
    if name in names:
        raise NotEditable(f"it has other servers called {NAME} and {name}; rename one")
    return name, wanted, []


def _with_entry(text: str, host: KnownHost, path: KeyPath, name: str, entry: Mapping[str, Any]) -> str:
    if host.id != "continue":
        return file_edits.with_members(text, host.syntax, path, {name: entry})
    if file_edits.find(file_edits.read(text, host.syntax), (*path, name)) is not None:
        text = file_edits.without_member(text, host.syntax, (*path, name))
    return file_edits.with_item(text, host.syntax, path, {**entry, "name": name})


def _common(old: list[str], new: list[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((count for count, (one, other) in pairs if one != other), min(len(old), len(new)))


@dataclass(frozen=True, slots=True)
class ProductCommand:
    """How a host starts this product."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def servers_path(host: KnownHost, data: Any) -> KeyPath:
    """Where this file has its servers: opencode 2 has them one level deeper."""
    inner = find(data, (*host.servers, "servers")) if host.id == "opencode" else None
    is_deeper = isinstance(inner, dict) and not {"command", "url", "type"} & inner.keys()
    return (*host.servers, "servers") if is_deeper else host.servers


def own_entry(host: KnownHost, launch: ProductCommand, servers: Any) -> dict[str, Any]:
    args, env = list(launch.args), dict(launch.env)
    if host.id == "opencode":
        entry: dict[str, Any] = {"type": "local", "command": [launch.command, *args]}
        return {**entry, "environment": env} if env else entry
    if host.id == "goose":
        entry = {"name": NAME, "type": "stdio", "cmd": launch.command, "args": args, "envs": env}
        return {**entry, "enabled": True, "timeout": 300}
    entry = {"command": launch.command, "args": args, **({"env": env} if env else {})}
    others = [it for _, it in named(servers) if isinstance(it, dict)]
    if host.id == "cline" and (not others or any(isinstance(it.get("transport"), dict) for it in others)):
        return {"transport": {"type": "stdio", **entry}}  # older versions have no `transport`
    return {**host.before, **entry, **host.after}


def updated(there: Mapping[str, Any], wanted: Mapping[str, Any], *, is_command_given: bool) -> dict[str, Any]:
    """Our entry that is there, with what it lacks. The person may have changed it, so only what our tools need is
    added, and the command if another one `is_command_given` or the one there can't be run."""
    command = next(iter(command_words(there)), "")
    is_runnable = bool(command) and shutil.which(with_home(command)) is not None
    if is_runnable and not is_command_given:
        lacking = {key: it for key, it in wanted.items() if key in ("alwaysLoad", "required") and key not in there}
        return {**there, **lacking}
    merged = {**there, **{key: value for key, value in wanted.items() if key not in there or key in _COMMAND_KEYS}}
    for key in _ENV_KEYS:
        if key in wanted and isinstance(there.get(key), dict):
            merged[key] = {**there[key], **wanted[key]}
    return merged


def own_entries(servers: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries that start this product by any launcher, whatever they are called."""
    for name, it in named(servers):
        if isinstance(it, dict) and names_this_server(command_words(it)):
            yield name, it


def named(servers: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a mapping, or of a list of entries with names."""
    if isinstance(servers, dict):
        yield from servers.items()
    elif isinstance(servers, list):
        for item in servers:
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield item["name"], item


def launch(config: Path | None) -> ProductCommand:
    """The command that runs now, as absolute paths, and `CODEMODE_CONFIG` unless the user's own file is used. Not
    `--config`: some hosts have an option of that name and take ours for theirs."""
    command, *args = launch_words(sys.argv[0], Path(sys.executable), sys.prefix)
    user, environ = places.user_file(), os.environ
    is_found_anyway = not environ.get("XDG_CONFIG_HOME")  # some hosts pass on few variables, and not this one
    file = places.asked_for(config, environ, Path.cwd())
    if file is None:
        file = places.ConfigFile(user) if user.is_file() else places.in_folder(Path.cwd())
    needs_name = file is not None and (file.path != user or not is_found_anyway)
    return ProductCommand(command, tuple(args), {places.VARIABLE: str(file.path)} if file and needs_name else {})


def launch_words(started_as: str, python: Path, prefix: str) -> list[str]:
    """The command of a product that was started as `started_as`, by an interpreter in the environment `prefix`."""
    match installer(prefix):
        case Installer.UVX:
            return [shutil.which("uvx") or "uvx", _COMMAND]  # the environment itself may be deleted with uv's cache
        case Installer.PIPX_RUN:
            # Without `--spec` it runs a file of this name in the host's folder, which may be a clone.
            return [shutil.which("pipx") or "pipx", "run", "--spec", _COMMAND, _COMMAND]
    suffix = ".exe" if python.suffix.casefold() == ".exe" else ""
    # Not resolved: the link in a folder of commands stays when the environment behind it is upgraded.
    asked = Path(os.path.abspath(started_as))  # noqa: PTH100 - `resolve` would follow the link
    for script in (asked, python.with_name(_COMMAND + suffix)):
        if script.stem.casefold() == _COMMAND and script.is_file():
            return [str(script)]
    if found := shutil.which(_COMMAND):
        return [str(Path(found).absolute())]
    return [str(python), "-P", "-m", "codemode_server"]  # -P: the host's folder is no place of modules
