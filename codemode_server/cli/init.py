"""The `init` command: writes a first `upstream.yaml`, and prints what each host on this machine needs to start us."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.terminal import show
from codemode_server.config import saving
from codemode_server.config.host_files.launch import command_words
from codemode_server.config.host_places import HOSTS, KnownHost, System
from codemode_server.config.places import ConfigFile, user_file

_COMMANDS = {
    "claude-code": "claude mcp add -s user codemode -- {line}",
    "codex": "codex mcp add codemode -- {line}",
    "gemini": "gemini mcp add -s user codemode {command} -- {args}",
    "qwen": "qwen mcp add -s user codemode {command} -- {args}",
    "copilot": "copilot mcp add codemode -- {line}",
    "amp": "amp mcp add codemode -- {line}",
    "cline": "cline mcp add codemode --yes -- {line}",
}
"""The hosts' own commands; `{args}` is with the `--` before it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(parsed: argparse.Namespace) -> int:
    given = config_file(parsed)
    with saving.locked(ConfigFile(Path(given).expanduser().absolute() if given else user_file())) as file:
        if is_new := file.is_new:
            file.save()
    if is_new:
        show(f"written: {file.place.path}")
    else:
        show(f"{file.place.path} is there already; it stays as it is")
    command = [*_product(), *(["--config", str(file.place.path)] if given else [])]
    system = System.current()
    found = [host for host in HOSTS.values() if host.is_present(system)]
    show("\n".join(_page(found, command, system)))
    return 0


def _page(found: list[KnownHost], command: list[str], system: System) -> Iterator[str]:
    yield ""
    yield "next:"
    yield "  codemode-server import        takes over the servers that your hosts have"
    yield "  codemode-server add NAME …    adds one"
    yield "  codemode-server status        connects to all of them"
    yield ""
    if not found:
        yield "no host was found here; an entry that most hosts understand:"
        yield f"  {_snippet(('mcpServers',), command)}"
        return
    yield "then have your hosts start this server, in place of the others:"
    for host in found:
        yield ""
        yield f"{host.name}: codemode-server connect {host.id}"
        yield f"  or by hand: {_by_hand(host, command, system)}"


def _by_hand(host: KnownHost, command: list[str], system: System) -> str:
    if host.id in _COMMANDS:
        args = shlex.join(command[1:])
        line = _COMMANDS[host.id].format(line=shlex.join(command), command=shlex.quote(command[0]), args=args)
        return line if args else line.removesuffix(" -- ")
    path = host.place(system).path
    return f"in {path}: {_entry(host, command)}"


def _entry(host: KnownHost, command: list[str]) -> str:
    first, *rest = command
    if host.id == "opencode":
        return json.dumps({"mcp": {"codemode": {"type": "local", "command": command}}})
    if host.id == "goose":
        return f"extensions: {{codemode: {{type: stdio, name: codemode, enabled: true, cmd: {first}, args: {rest}}}}}"
    if host.id == "continue":
        return f"mcpServers: [{{name: codemode, command: {first}, args: {rest}}}]"
    return _snippet(host.servers, command)


def _snippet(path: tuple[str, ...], command: list[str]) -> str:
    first, *rest = command
    return json.dumps({path[0]: {"codemode": {"command": first, **({"args": rest} if rest else {})}}})


def _product() -> list[str]:
    """By its full path: applications of the desktop have another PATH than the terminal."""
    return command_words(sys.argv[0], Path(sys.executable), sys.prefix)
