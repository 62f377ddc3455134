"""Describes a configuration file on a page: its values, each with the keys that lead to it, and variables by name.

`describe` is for `config check`: secrets are masked, and servers that can't start are named. `preview` is what the
person reads before trusting somebody else's file. Of the file itself it masks nothing: what looks like a secret may as
well be a command. The `.env` beside it may hold the person's own secrets, so a value is `***` if its name looks secret
and it is used as a secret only: in a header, or under a key that looks secret too. One that becomes part of a command,
its arguments, its folder or an address is shown whatever its name is. Secrets are not read and commands not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from codemode_server.config.document import Node
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.places import user_file, with_home
from codemode_server.config.problems import joined, printable
from codemode_server.config.secrecy import looks_secret, named_arguments
from codemode_server.support.private_files import data_folder
from codemode_server.support.redaction import MASK
from codemode_server.support.text import escaped

_MAX_LINE_CHARACTERS = 10_000
_EXECUTED = frozenset({"command", "args", "cwd", "url", "headers_command"})
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_PARAMETER = re.compile(r"(?<=[?&])([^=&#\s]+)=[^&#\s]*")
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@?#\s]*@")


def describe(loaded: LoadedSettings, more_warnings: Sequence[str] = ()) -> str:
    """A page of text: the file, the warnings, and each setting that it has."""
    lines = [f"file: {loaded.path or 'none'}"]
    if loaded.path:
        lines.append(f"relative paths: from {loaded.base_dir}")
    if loaded.place and loaded.place.is_in_current_folder:
        none = "not given: used only where --config names it; run `codemode-server trust`"
        lines.append(f"trust: {'given' if loaded.is_trusted else none}")
    if loaded.expanded_from:
        lines.append(f"variables: {', '.join(sorted(loaded.expanded_from))}")
    if names := [str(reference) for reference in loaded.references if reference.kind == "keyring"]:
        lines.append(f"secrets: {', '.join(names)}")
    if commands := [f"  {reference.text}" for reference in loaded.references if reference.kind == "command"]:
        lines += ["commands that are run for secrets, and were not run by this check:", *commands]
    if warnings := [*loaded.warnings, *more_warnings, *_missing_programs(loaded), *_exposed_folders(loaded)]:
        lines += ["", "warnings:", *(f"  - {warning}" for warning in warnings)]
    count = len(loaded.settings.servers) + len(loaded.invalid_servers)
    lines += ["", f"servers: {count or 'none'}"]
    for name, node in loaded.as_written.entries.items():
        if name == "servers":  # the secrets of those that are invalid are not known
            valid = {key: entry for key, entry in node.entries.items() if key not in loaded.invalid_servers}
            node = node.with_value(valid)
        lines += [shown_address(line, loaded) for line in _lines(name, node, is_masked=True)]
    lines += [f"servers.{name}: invalid" for name in loaded.invalid_servers]
    redactor = loaded.redactor
    return "\n".join(printable(redactor.text(line), _MAX_LINE_CHARACTERS) for line in lines)


def preview(loaded: LoadedSettings) -> str:
    """A page of text about a file that was read without trust."""
    lines = [f"file: {escaped(str(loaded.path))}", ""]
    for name, node in loaded.as_written.entries.items():
        lines += [escaped(line) for line in _lines(name, node)]
    lines += [f"mistake: {escaped(line)}" for line in loaded.server_errors]
    if used := [name for name in loaded.dotenv if name in loaded.expanded_from or name.startswith("LANGFUSE_")]:
        exposed = set(_exposed_variables(loaded.as_written, ()))
        lines += ["", "variables from .env beside it:"]
        for name in used:
            value = loaded.dotenv[name]
            hidden = MASK if looks_secret(name) else _word(_USER_IN_ADDRESS.sub(f"{MASK}@", value))
            lines.append(f"  {escaped(name)}={_word(value) if name in exposed else hidden}")
    if commands := [f"  {escaped(reference.text)}" for reference in loaded.references if reference.kind == "command"]:
        lines += ["", "commands that are run for secrets:", *commands]
    if names := [reference.text for reference in loaded.references if reference.kind == "keyring"]:
        lines += ["", f"secrets of yours that are read: {escaped(', '.join(names))}"]
    if loaded.warnings:
        lines += ["", "warnings:", *(f"  - {escaped(warning)}" for warning in loaded.warnings)]
    lines += ["", f"programs that can be imported, in the sandbox only: {escaped(loaded.settings.state.skills)}"]
    lines += [f"workflows that can be imported there: {escaped(loaded.settings.state.workflows)}"]
    if loaded.settings.sandbox.packages:
        lines += [f"packages that can be imported there: those in {escaped(loaded.settings.sandbox.packages_lock)}"]
    return "\n".join(lines)


def shown_address(address: str, loaded: LoadedSettings) -> str:
    """A text with an address in it, without user information and without parameters with secret-looking names."""
    shown = _USER_IN_ADDRESS.sub(f"{MASK}@", address)
    shown = _PARAMETER.sub(lambda it: f"{it[1]}={MASK}" if looks_secret(it[1]) else it[0], shown)
    for secret in sorted(loaded.short_secrets, key=len, reverse=True):
        shown = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", MASK, shown)
    return shown


def _lines(name: str, node: Node, *, is_masked: bool = False) -> Iterator[str]:
    """Each value on a line with the keys that lead to it; a command with its arguments is one line."""
    if isinstance(node.value, dict):
        if is_masked and name == "env":
            yield f"{name}: {', '.join(node.entries)}"
            return
        members = dict(node.entries)
        args = members.get("args")
        if "command" in members and args is not None and isinstance(args.value, list):
            words = [_text(members.pop("command")), *map(_text, args.value)]
            named = named_arguments(words[1:]) if is_masked else ()
            for secret in {value for key, value in named if key and looks_secret(key) and value and "${" not in value}:
                words = [re.sub(rf"(?:^|(?<=[=:\s])){re.escape(secret)}$", MASK, word) for word in words]
            yield f"{name} starts {' '.join(escaped(word) if MASK in word else _word(word) for word in words)}"
            del members["args"]
        for key, child in members.items():
            if is_masked and key in ("env", "headers"):
                yield f"{name}.{key}: {', '.join(child.entries)}"
            elif is_masked and key == "headers_command":  # its arguments may hold a secret in any form
                yield f"{name}.{key}: {_word(_text(child).partition(' ')[0])} …"
            else:
                yield from _lines(f"{name}.{key}", child, is_masked=is_masked)
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _lines(joined(name, index), child, is_masked=is_masked)
    elif node.value is not None:
        is_secret = is_masked and looks_secret(name.rpartition(".")[2]) and "${" not in _text(node)
        yield f"{name}: {MASK if is_secret and isinstance(node.value, str) else _text(node)}"


def _exposed_variables(node: Node, place: tuple[str, ...]) -> Iterator[str]:
    """Variables that are used for more than to pass on a secret."""
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _exposed_variables(child, (*place, key))
    elif isinstance(node.value, list):
        for child in node.value:
            yield from _exposed_variables(child, place)
    elif place:
        is_passed_on = "headers" in place or looks_secret(place[-1])
        if not is_passed_on or not _EXECUTED.isdisjoint(place):
            yield from _VARIABLE.findall(_text(node))


def _missing_programs(loaded: LoadedSettings) -> Iterator[str]:
    for name, server in loaded.settings.servers.items():
        path = server.env.get("PATH")
        if server.enabled and server.command and shutil.which(server.command, path=path) is None:
            words = _text(loaded.as_written.entries["servers"].entries[name].entries["command"]).split()
            told = f"{server.command!r} is not found or can't be run; install it or give its path"
            if len(words) > 1 and not set("/\\") & set(words[0]):
                told = f"a command is one word; write command: {words[0]}, args: [{', '.join(words[1:])}]"
            yield f"servers.{name}.command: {told}"
        if server.enabled and server.cwd and not Path(server.cwd).is_dir():
            yield f"servers.{name}.cwd: there is no folder {server.cwd}"


def _exposed_folders(loaded: LoadedSettings) -> Iterator[str]:
    """Warnings about servers that get a folder with our configuration or state in it, which a program could read."""
    state = loaded.settings.state.dir
    own = [user_file().parent, data_folder(), *([Path(state)] if state else [])]
    for name, server in loaded.settings.servers.items():
        words = [it for it in server.args if not server.follows_folder or with_home(it).is_absolute()]
        paths = [Path(server.cwd or "/", with_home(it)) for it in words if _is_folder_name(it)]
        folders = [Path(os.path.normpath(path)) for path in paths] if server.enabled else []
        if "cwd" in loaded.as_written.entries["servers"].entries[name].entries:
            folders += [it for it in own if str(it) == server.cwd]
        for folder in folders:
            if inner := next((it for it in own if it.is_relative_to(folder)), None):
                yield f"servers.{name}: it gets {folder}, and so {inner} with your secrets; give it another folder"


def _is_folder_name(word: str) -> bool:
    return with_home(word).is_absolute() or (word != "" and not word.strip("./"))


def _text(node: Node) -> str:
    return node.text or ("" if node.value is None else str(node.value))


def _word(text: str) -> str:
    return shlex.quote(escaped(text))
