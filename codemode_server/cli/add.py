"""The `add` command: adds one server to `upstream.yaml`, with the arguments of `claude mcp add`."""

from __future__ import annotations

import argparse
import re

from codemode_server.cli import edited_config
from codemode_server.config.host_entries import entry_of
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.import_plan import plan
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.settings import SERVER_NAME


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "codemode-server add [options] NAME (URL | -- COMMAND [ARGUMENT …])"
    edited_config.add_arguments(parser)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "words", nargs="*", default=[], metavar="URL", help="its address, or behind `--` the command that starts it"
    )
    parser.add_argument("-t", "--transport", choices=("stdio", "http", "sse"))
    parser.add_argument("-e", "--env", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="'NAME: VALUE'", help="may be repeated")
    parser.add_argument("--cwd", metavar="FOLDER", help="where the command is started")
    parser.add_argument("-s", "--scope", help=argparse.SUPPRESS)  # `claude mcp add` has it; here there is one file


def run(parsed: argparse.Namespace) -> int:
    if not re.fullmatch(SERVER_NAME, parsed.name):
        raise CodemodeError(
            f"{parsed.name!r} can't be a name: it takes up to 64 letters, digits, `.`, `_` and `-`, the first a letter "
            "or digit"
        )
    found = FoundServer(parsed.name, _entry(parsed), "the command line", "", "user")
    with edited_config.locked(edited_config.located(parsed)) as file:
        if parsed.name in file.text.servers():
            raise CodemodeError(f"there is a server {parsed.name!r} already; remove it first, or choose another name")
        storage = edited_config.SecretDestination(file, parsed.secrets)
        made = plan([found], file.text.servers(), storage.new(), storage.variables, file.folder)
        if not made.additions:
            raise CodemodeError("; ".join(made.skipped))
        edited_config.save(file, made, storage)
    edited_config.print_added(made, storage, file)
    if not parsed.is_tested or made.to_set:
        return 0
    return edited_config.tested(file, [made.additions[0].name], parsed.wait)


def _entry(parsed: argparse.Namespace) -> dict[str, Plain]:
    words = [*parsed.words, *parsed.command_line]
    if not words:
        raise CodemodeError(f"give an address, or the command behind `--`: add {parsed.name} -- npx -y PACKAGE")
    entry = entry_of(words, transport=parsed.transport)
    if env := dict(_pair(it, "=", "-e KEY=VALUE") for it in parsed.env):
        entry["env"] = env
    if headers := dict(_pair(it, ":", "--header 'NAME: VALUE'") for it in parsed.header):
        entry["headers"] = headers
    if parsed.cwd:
        entry["cwd"] = parsed.cwd
    for key, selector in (("env", "command"), ("cwd", "command"), ("headers", "url")):
        if key in entry and selector not in entry:
            raise CodemodeError(f"{key} is for servers with a {selector} only")
    return entry


def _pair(text: str, separator: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise CodemodeError(f"{name!r} is not of the form {form}")
    return name.strip(), value.strip() if separator == ":" else value
