"""Plans and makes the change of a host's file that starts this product, and takes it back.

A plan is made of the file as it is and shown to the person; only then the file is replaced, if it is still the same.
`disconnect` restores the first bytes if nobody else has changed the file since, and edits it otherwise.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config import file_edits, host_file, own_entries
from codemode_server.config.file_edits import KeyPath, NotEditable
from codemode_server.config.host_file import ConnectRecord, HostFile
from codemode_server.config.hosts import HostPlace, KnownHost
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.own_entries import NAME, ProductCommand
from codemode_server.text import escaped, one_line

_CONTEXT_LINES = 3
_MAX_DIFF_LINES = 2_000
_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class HostFileChange:
    """One change of one file, not yet made."""

    place: HostPlace
    file: HostFile
    content: bytes | None = field(repr=False)
    """New content of the file; None to remove it."""
    record: ConnectRecord | None
    """The record to store; None to delete it."""
    notes: Sequence[str] = ()
    """Notes for the person, a line each."""

    @property
    def is_empty(self) -> bool:
        return self.content == self.file.content

    def difference(self) -> list[str]:
        """The lines of a unified diff."""
        old, new = ((it or b"").decode().splitlines() for it in (self.file.content, self.content))
        start = _common(old, new)  # difflib takes time that grows with the square of the lines
        end = _common(old[start:][::-1], new[start:][::-1])
        first = max(0, start - _CONTEXT_LINES)
        old, new = (lines[first : len(lines) - max(0, end - _CONTEXT_LINES)] for lines in (old, new))
        if len(old) + len(new) > _MAX_DIFF_LINES:
            return [f"(the change is too long to be shown: {len(old):,} lines become {len(new):,})"]
        lines = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""))[3:]
        return [f"@@ line {first + 1} @@", *(one_line(line, _MAX_CHARACTERS) for line in lines)] if lines else []


def snippet(host: KnownHost, launch: ProductCommand) -> str:
    """Our entry as a file of this host that has nothing else."""
    return _with_entry("", host, host.servers, NAME, own_entries.own_entry(host, launch, None))


def plan_connect(
    place: HostPlace,
    within: Path,
    launch: ProductCommand,
    *,
    is_command_given: bool = False,
    ours: LoadedSettings | None = None,
    takes_out: bool = False,
) -> HostFileChange:
    """The change that puts our entry into the file and, if it `takes_out`, takes out the servers that `ours` has too.

    `is_command_given`: an entry of ours that is there gets this command although its own would work.

    Raises:
        NotEditable: the file can't be edited.
    """
    host = place.host
    found = host_file.read_file(place.path, within, host.syntax)
    text = found.text()
    data = file_edits.read(text, host.syntax)
    path = own_entries.servers_path(host, data)
    servers = file_edits.find(data, path)
    name, entry, notes = _entry(host, launch, servers, is_command_given=is_command_given)
    same = own_entries.imported(host, found.path, data, ours) if ours is not None else {}
    removed: dict[str, Any] = {}
    if takes_out:
        for it, counterpart in same.items():
            removed[it] = file_edits.find(data, (*path, it))
            text = file_edits.without_member(text, host.syntax, (*path, it))
            notes.append(f"takes out '{escaped(it)}', which is '{counterpart}' in your configuration")
        if others := [it for it, _ in own_entries.named(servers) if it not in same and it != name]:
            notes.append(f"stays: {_quoted(others)}, which your configuration does not have with the same content")
    elif same:
        option = f"{host.id}{' --project' if place.scope == 'project' else ''} --take-out-imported"
        notes.append(f"your configuration has {_quoted(same)} too; to have only ours: codemode-server connect {option}")
    there = file_edits.find(data, (*path, name))
    if there is None or {**there, "name": ""} != {**entry, "name": ""}:
        text = _with_entry(text, host, path, name, entry)
    content = text.encode()
    earlier = host_file.find_record(found.path) if any(True for _ in own_entries.own_entries(servers)) else None
    before = earlier or ConnectRecord(file=found.path, before=found.digest, after=found.digest)
    record = before.model_copy(
        update={
            "after": host_file.digest_of(content),
            "removed": {**before.removed, **removed},
            "is_mixed": before.is_mixed or before.after != found.digest,
        }
    )
    return HostFileChange(place, found, content, record, notes)


def plan_disconnect(place: HostPlace, within: Path) -> HostFileChange:
    """The change that restores the file, or edits it if somebody else has changed it since. Raises `NotEditable` if the
    file can't be edited, or our entry is not there."""
    host = place.host
    found = host_file.read_file(place.path, within, host.syntax)
    record = host_file.find_record(found.path)
    if record is not None and record.after == found.digest and not record.is_mixed:
        if record.backup is None:
            return HostFileChange(place, found, None, None, ["the file did not exist before; it is removed"])
        content = host_file.read_plain(record.backup)
        if host_file.digest_of(content) == record.before:
            notes = ["nobody has changed the file since; its old bytes are restored"]
            return HostFileChange(place, found, content, None, notes)
    text = found.text()
    data = file_edits.read(text, host.syntax)
    path = own_entries.servers_path(host, data)
    names = [name for name, _ in own_entries.own_entries(file_edits.find(data, path))]
    if not names and record is None:
        raise NotEditable("there is no entry of codemode-server in it, so there is nothing to disconnect")
    notes = ["the file has changed since `connect`, so only what `connect` did is taken back"] if record else []
    for name in names:
        text = file_edits.without_member(text, host.syntax, (*path, name))
    for name, entry in record.removed.items() if record else ():
        if file_edits.find(data, (*path, name)) is None:
            text = _with_entry(text, host, path, name, entry)
            notes.append(f"puts back '{escaped(name)}'")
        else:
            notes.append(f"'{escaped(name)}' is there again; it stays as it is")
    if record is not None and record.backup is not None:
        notes.append(f"the file as it was before is in {escaped(str(record.backup))}")
    left = file_edits.read(text, host.syntax)
    is_empty = left.keys() <= {path[0]} and not any(left.values())
    if record is not None and not record.before and is_empty:
        return HostFileChange(place, found, None, None, [*notes, "nothing else is in the file; it is removed"])
    return HostFileChange(place, found, text.encode(), None, notes)


def apply(plan: HostFileChange) -> Path | None:
    """Make the change; gives the new backup, if there is one. Raises `NotEditable` if the file has changed since the
    plan was made, or can't be written; `OSError`, `NotPrivate`: the record can't be written; the file has not been
    changed then."""
    before = host_file.find_record(plan.file.path)
    if plan.record is None:
        if plan.content is None:
            host_file.remove_file(plan.file)
        else:
            host_file.replace_file(plan.file, plan.content)
        host_file.forget_record(plan.file.path)
        if before is not None and before.backup and host_file.digest_of(plan.content) == before.before:
            before.backup.unlink(missing_ok=True)
        return None
    is_first = not plan.record.backup and plan.record.before == plan.file.digest
    backup = host_file.write_backup(plan.file) if is_first else None
    host_file.write_record(plan.record.model_copy(update={"backup": backup}) if is_first else plan.record)
    try:
        host_file.replace_file(plan.file, plan.content or b"")
    except BaseException:
        if before is None:
            host_file.forget_record(plan.file.path)
        else:
            host_file.write_record(before)
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise
    return backup


def _entry(
    host: KnownHost, launch: ProductCommand, servers: Any, *, is_command_given: bool
) -> tuple[str, dict[str, Any], list[str]]:
    """The name and the value that our entry shall have, and notes about it."""
    wanted = own_entries.own_entry(host, launch, servers)
    for name, there in own_entries.own_entries(servers):
        is_off = there.get("disabled") is True or there.get("enabled") is False
        notes = [f"'{escaped(name)}' is switched off in this file; it stays off"] if is_off else []
        return name, own_entries.updated(there, wanted, is_command_given=is_command_given), notes
    names = {name for name, _ in own_entries.named(servers)}
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


def _quoted(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"'{escaped(it)}'" for it in names)


def _common(old: list[str], new: list[str]) -> int:
    """How many lines at the beginning are equal."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((count for count, (one, other) in pairs if one != other), min(len(old), len(new)))
