"""Describes a file before the person trusts it: every server and setting, with variables by name.

Of the file itself nothing is masked: what looks like a secret in somebody else's file may as well be a command. Files
of variables (`.env`, `envFile`) may hold the person's own secrets, so a value is `***` if its name looks secret and it
is used as a secret only: in a header, or under a key that looks secret too. One that becomes part of a command, its
arguments, its folder or an address is shown whatever its name is. Secrets are not read and commands not run.
What was left out or could not be read is in the warnings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from codemode_server.config.document import Node
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.secrecy import looks_secret
from codemode_server.text import escaped

_SHOWN_APART = ("command", "args", "url")
_EXECUTED = frozenset({"command", "args", "cwd", "url", "headers_command"})
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/?#\s]*@")


def preview(loaded: LoadedSettings) -> str:
    """A page of text about a file that was read without trust."""
    members = loaded.as_written.entries
    lines = [f"file: {escaped(str(loaded.path))}", ""]
    servers = members["servers"].entries if "servers" in members else {}
    lines.append(f"servers: {len(servers) or 'none'}")
    for name, entry in servers.items():
        lines += _server(name, entry)
    lines += [f"  mistake: {escaped(line)}" for line in loaded.server_errors]
    others = [line for name, node in members.items() if name != "servers" for line in _lines(name, node)]
    if others:
        lines += ["", "other settings:", *(f"  {line}" for line in others)]
    if used := [name for name in loaded.dotenv if name in loaded.expanded_from or name.startswith("LANGFUSE_")]:
        exposed = set(_exposed_variables(loaded.as_written, ()))
        shown = [f"  {_variable(name, loaded.dotenv[name], is_exposed=name in exposed)}" for name in used]
        lines += ["", "variables from .env beside it:", *shown]
    if commands := [it.text for it in loaded.references if it.kind == "command"]:
        lines += ["", "commands that are run for secrets:", *(f"  {escaped(command)}" for command in commands)]
    if names := [it.text for it in loaded.references if it.kind == "keyring"]:
        lines += ["", f"secrets of yours that are read: {escaped(', '.join(names))}"]
    if loaded.warnings:
        lines += ["", "warnings:", *(f"  - {escaped(warning)}" for warning in loaded.warnings)]
    lines += ["", f"programs that can be imported, in the sandbox only: {escaped(loaded.settings.state.skills)}"]
    lines += [f"workflows that can be imported there: {escaped(loaded.settings.state.workflows)}"]
    return "\n".join(lines)


def _server(name: str, entry: Node) -> Iterator[str]:
    what = [escaped(name)]
    is_off = "enabled" in entry.entries and entry.entries["enabled"].value is False
    if is_off:
        what.append("(off)")
    command, args, url = (entry.entries.get(key) for key in _SHOWN_APART)
    if command is not None:
        words = [command, *(args.value if args is not None and isinstance(args.value, list) else [])]
        yield f"  {' '.join(what)}: starts {' '.join(_word(_text(word)) for word in words)}"
    elif url is not None:
        yield f"  {' '.join(what)}: connects to {escaped(_text(url))}"
    else:
        yield f"  {' '.join(what)}"
    for key, node in entry.entries.items():
        if key not in _SHOWN_APART or (key == "args" and not isinstance(node.value, list)):
            yield from (f"    {line}" for line in _lines(key, node))
    yield from (f"    {line}" for line in _env_file(entry))


def _env_file(entry: Node) -> list[str]:
    """The entry's `envFile`, with the variables that come from it; those that `env` sets anew are shown there."""
    env = entry.entries["env"].entries if "env" in entry.entries else {}
    from_file = {name: node for name, node in env.items() if node.env_file}
    if not from_file:
        return []
    # Our form doubles each `$` of such a value, since nothing in it is a variable.
    shown = [f"  {_variable(name, _text(node).replace('$$', '$'))}" for name, node in from_file.items()]
    return [f"envFile: {escaped(next(iter(from_file.values())).env_file)}", *sorted(shown)]


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


def _variable(name: str, value: str, *, is_exposed: bool = False) -> str:
    if is_exposed:
        return f"{escaped(name)}={_word(value)}"
    shown = "***" if looks_secret(name) else _word(_USER_IN_ADDRESS.sub("***@", value))
    return f"{escaped(name)}={shown}"


def _lines(name: str, node: Node) -> Iterator[str]:
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            if not child.env_file:
                yield from _lines(f"{name}.{key}", child)
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _lines(f"{name}[{index}]", child)
    else:
        yield f"{escaped(name)}: {escaped(_text(node))}"


def _text(node: Node) -> str:
    return node.text or ("" if node.value is None else str(node.value))


def _word(text: str) -> str:
    return shlex.quote(escaped(text))
