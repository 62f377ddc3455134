"""Plans and makes the change of a host's file that starts this product, and takes it back.

A plan is made of the file as it is and shown to the person; only then the file is replaced, if it is still the same.
`disconnect` restores the first bytes if nobody else has changed the file since, and edits it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codemode_server.config.host_files import entries, file, forms, records
from codemode_server.config.host_files.difference import difference, strings
from codemode_server.config.host_files.file import HostFile
from codemode_server.config.host_files.forms import ProductCommand
from codemode_server.config.host_files.imported import Imported, imported
from codemode_server.config.host_files.readable import readable
from codemode_server.config.host_files.records import ConnectRecord, Removed
from codemode_server.config.host_files.spans import HostFileNotEditable
from codemode_server.config.host_files.spans import Path as KeyPath
from codemode_server.config.host_places import HostPlace, KnownHost
from codemode_server.config.loading import LoadedSettings
from codemode_server.text import escaped


@dataclass(frozen=True, slots=True)
class HostFileChange:
    """One change of one file, not yet made."""

    place: HostPlace
    file: HostFile
    content: bytes | None = field(repr=False)
    """What the file shall have; None to remove it."""
    record: ConnectRecord | None
    """What is recorded then; None to forget."""
    notes: Sequence[str] = ()
    """What the person must know, a line each."""
    is_first: bool = False
    """Whether no earlier change of ours is in the file."""
    own: frozenset[str] = field(default=frozenset(), repr=False)
    """The strings of our entry, which the diff shows."""

    @property
    def is_empty(self) -> bool:
        return self.content == self.file.content

    def difference(self) -> list[str]:
        """The lines of the diff."""
        syntax = self.place.host.syntax
        before, after = (
            "" if content is None else entries.decoded(content, syntax) for content in (self.file.content, self.content)
        )
        trees = [entries.read(text, syntax) for text in (before, after)]
        servers = [entries.find(tree, forms.servers_path(self.place.host, tree)) for tree in trees]
        return difference(before, after, syntax, self.own, readable(servers))


def snippet(host: KnownHost, launch: ProductCommand) -> str:
    """Our entry as a file of this host that has nothing else."""
    path = (*host.servers, forms.NAME)
    return entries.with_entry("", host.syntax, path, forms.entry(host, launch, None), is_list=_is_list(host))


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
        HostFileNotEditable: the file can't be edited.
    """
    found = file.read_file(place.path, within, place.host.syntax)
    syntax = place.host.syntax
    text = entries.decoded(found.content or b"", syntax)
    data = entries.read(text, syntax)
    path = forms.servers_path(place.host, data)
    servers = entries.find(data, path)
    name, entry, notes = _our_entry(place, launch, servers, is_command_given=is_command_given)
    removed: list[KeyPath] = []
    notes += _about_switches(place.host, name, data)
    same, others = imported(place.host.id, servers, ours) if ours is not None else ([], [])
    if not takes_out:
        notes += _about_double(place, same)
    else:
        for it in same:
            text = entries.without_entry(text, syntax, (*path, it.name))
            removed.append((*path, it.name))
        notes += _about_taken_out(same, others)
    if entries.find(data, (*path, name)) != _as_found(entry, servers, name):
        text = entries.with_entry(text, syntax, (*path, name), entry, is_list=_is_list(place.host))
    content = entries.encoded(text, found.content or b"")
    earlier = records.find(found.path) if any(True for _ in forms.our_entries(servers)) else None
    record = ConnectRecord(str(found.path), (*path, name), found.digest, file.digest_of(content), "", _made(data, path))
    if earlier is not None:
        is_mixed = earlier.is_mixed or earlier.after != found.digest
        record = replace(earlier, entry=record.entry, after=record.after, is_mixed=is_mixed)
    record = replace(record, removed=[*record.removed, *(Removed(it, "") for it in removed)])
    own = frozenset(strings(forms.entry(place.host, launch, servers))) | {name}
    return HostFileChange(place, found, content, record, notes, is_first=earlier is None, own=own)


def plan_disconnect(place: HostPlace, within: Path) -> HostFileChange:
    """The change that restores the file, or edits it if somebody else has changed it since.

    Raises:
        HostFileNotEditable: the file can't be edited, or our entry is not there.
    """
    found = file.read_file(place.path, within, place.host.syntax)
    record = records.find(found.path)
    if record is not None and record.after == found.digest and not record.is_mixed:
        if not record.before:
            return HostFileChange(place, found, None, None, ["the file did not exist before; it is removed"])
        content = file.read_plain(Path(record.backup), entries.MAX_BYTES[place.host.syntax])
        if content is not None and file.digest_of(content) == record.before:
            return HostFileChange(
                place, found, content, None, ["nobody has changed the file since; its old bytes are restored"]
            )
    return _plan_edit(place, found, record)


def apply(plan: HostFileChange) -> Path | None:
    """Make the change; gives the new backup, if there is one.

    Raises:
        HostFileNotEditable: the file has changed since the plan was made, or can't be written.
        OSError, NotPrivate: the record can't be written; the file has not been changed then.
    """
    before = records.find(plan.file.path)
    if plan.record is None:
        _restore(plan, before)
        return None
    folders = file.make_folders(plan.file) if plan.file.content is None else []
    # Without a new backup, the first one has what is taken out now.
    backup = file.write_backup(plan.file) if plan.is_first or plan.record.is_mixed else None
    shown = str(backup or plan.record.backup)
    removed = [replace(it, backup=it.backup or shown) for it in plan.record.removed]
    record = replace(plan.record, removed=removed)
    if plan.is_first:
        record = replace(record, backup=str(backup or ""), folders=[str(folder) for folder in folders])
    records.write(record)
    try:
        file.replace_file(plan.file, plan.content or b"")
    except BaseException:
        _undo_record(plan, before, backup)
        raise
    return backup


def _undo_record(plan: HostFileChange, before: ConnectRecord | None, backup: Path | None) -> None:
    if before is None:
        records.forget(plan.file.path)
    else:
        records.write(before)
    if backup is not None:
        backup.unlink(missing_ok=True)


def _restore(plan: HostFileChange, record: ConnectRecord | None) -> None:
    if plan.content is None:
        file.remove_file(plan.file, [Path(folder) for folder in record.folders] if record else [])
    else:
        file.replace_file(plan.file, plan.content)
    records.forget(plan.file.path)
    is_restored = record is not None and plan.content is not None and file.digest_of(plan.content) == record.before
    if record is not None and record.backup and is_restored:
        Path(record.backup).unlink(missing_ok=True)


def _our_entry(
    place: HostPlace, launch: ProductCommand, servers: Any, *, is_command_given: bool
) -> tuple[str, dict[str, Any], list[str]]:
    """The name and the value that our entry shall have, and notes about it."""
    wanted = forms.entry(place.host, launch, servers)
    for name, there in forms.our_entries(servers):
        is_command_new = is_command_given or not forms.is_runnable(there)
        notes = [f"'{escaped(name)}' is switched off in this file; it stays off"] if forms.is_off(there) else []
        if _has_command(there, wanted):
            is_command_new = is_command_given
        return name, forms.updated(there, wanted, is_command_new=is_command_new), notes
    names = {name for name, _ in forms.named(servers)}
    name = forms.NAME if forms.NAME not in names else f"{forms.NAME}-server"
    if name in names:
        raise HostFileNotEditable(f"it has other servers called {forms.NAME} and {name}; rename one")
    return name, wanted, []


def _has_command(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return forms.words(there) == forms.words(wanted)


def _as_found(entry: Mapping[str, Any], servers: Any, name: str) -> Any:
    """What the data have if the entry is there already; in a list, its name is one of its members."""
    return {"name": name, **entry} if isinstance(servers, list) else dict(entry)


def _is_list(host: KnownHost) -> bool:
    return host.id == "continue"


def _made(data: Any, path: KeyPath) -> KeyPath | None:
    """The outermost part of the path that is not there yet."""
    for depth in range(1, len(path) + 1):
        if entries.find(data, path[:depth]) is None:
            return path[:depth]
    return None


def _about_taken_out(same: Sequence[Imported], others: Sequence[str]) -> list[str]:
    notes = [f"takes out '{escaped(it.name)}', which is '{it.ours}' in your configuration" for it in same]
    if others:
        names = ", ".join(f"'{escaped(name)}'" for name in others)
        notes.append(f"stays: {names}, which your configuration does not have with the same content")
    return notes


def _about_double(place: HostPlace, same: Sequence[Imported]) -> list[str]:
    """Servers that would be started by the host and by us."""
    if not same:
        return []
    names = ", ".join(f"'{escaped(it.name)}'" for it in same)
    option = f"{place.host.id}{' --project' if place.scope == 'project' else ''} --take-out-imported"
    return [f"your configuration has {names} too; to have only ours: codemode-server connect {option}"]


def _about_switches(host: KnownHost, name: str, data: Any) -> list[str]:
    """The settings of Gemini CLI and Qwen Code by which our entry would not be started."""
    if host.id not in ("gemini", "qwen"):
        return []
    notes: list[str] = []
    for path in (("mcp", "allowed"), ("allowMCPServers",)):
        if isinstance(allowed := entries.find(data, path), list) and name not in allowed:
            notes.append(f"{host.name} does not start it until {'.'.join(path)} in this file has '{escaped(name)}' too")
    for path in (("mcp", "excluded"), ("excludeMCPServers",)):
        if isinstance(excluded := entries.find(data, path), list) and name in excluded:
            notes.append(f"{host.name} does not start it until '{escaped(name)}' is taken out of {'.'.join(path)}")
    return notes


def _plan_edit(place: HostPlace, found: HostFile, record: ConnectRecord | None) -> HostFileChange:
    syntax = place.host.syntax
    text = entries.decoded(found.content or b"", syntax)
    data = entries.read(text, syntax)
    path = forms.servers_path(place.host, data)
    ours = [name for name, _ in forms.our_entries(entries.find(data, path))]
    notes = ["the file has changed since `connect`, so only what `connect` did is taken back"] if record else []
    for name in ours:
        text = entries.without_entry(text, syntax, (*path, name), record.made if record else None)
    for removed in record.removed if record else ():
        text, note = _put_back(text, place, removed)
        notes.append(note)
    if not ours and text == entries.decoded(found.content or b"", syntax):
        if record is not None:
            return HostFileChange(
                place, found, found.content, None, ["our entry is not there any more; nothing is to be done"]
            )
        raise HostFileNotEditable("there is no entry of codemode-server in it, so there is nothing to disconnect")
    content: bytes | None = entries.encoded(text, found.content or b"")
    if record is not None and not record.before and not entries.read(text, syntax):
        content, notes = None, [*notes, "nothing else is in the file, which did not exist before; it is removed"]
    if record is not None and record.backup:
        notes.append(f"the file as it was before is in {escaped(record.backup)}")
    return HostFileChange(place, found, content, None, notes, own=frozenset(ours))


def _put_back(text: str, place: HostPlace, removed: Removed) -> tuple[str, str]:
    """The text with an entry that `connect` took out, as it is in the backup."""
    syntax, name = place.host.syntax, escaped(removed.path[-1])
    if entries.find(entries.read(text, syntax), removed.path) is not None:
        return text, f"'{name}' is there again; it stays as it is"
    content = file.read_plain(Path(removed.backup), entries.MAX_BYTES[syntax])
    if content is None:
        return text, f"'{name}' can't be put back, since the backup {escaped(removed.backup)} is gone"
    entry = entries.find(entries.read(entries.decoded(content, syntax), syntax), removed.path)
    if not isinstance(entry, dict):
        return text, f"'{name}' can't be put back, since it is not in the backup {escaped(removed.backup)}"
    if _is_list(place.host):
        entry = {key: value for key, value in entry.items() if key != "name"}
    return entries.with_entry(text, syntax, removed.path, entry, is_list=_is_list(place.host)), f"puts back '{name}'"
