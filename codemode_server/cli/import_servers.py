"""The `import` command: takes over the servers of hosts, or of a file, an address or a command line."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.cli import edited_config
from codemode_server.cli.terminal import show
from codemode_server.config.host_places import HOSTS, System, all_places
from codemode_server.config.host_reading import MAX_HOST_FILE_BYTES, FoundServer, HostFile, read_place, read_text
from codemode_server.config.moving_in import Addition, Plan, plan, unite
from codemode_server.config.new_server import entry_of, is_address, name_of
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.text import one_line

_MAX_CHARACTERS = 160


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "codemode-server import [options] [NAME … | FILE | - | URL | -- COMMAND [ARGUMENT …]]"
    edited_config.add_arguments(parser)
    parser.add_argument(
        "words", nargs="*", metavar="NAME", help="servers to take; or a file, `-` for stdin, or an address"
    )
    parser.add_argument(
        "--from", dest="hosts", action="append", choices=list(HOSTS), metavar="HOST", help="only its servers"
    )
    parser.add_argument("--all", action="store_true", help="take all of the user's servers without being asked")
    parser.add_argument("--project", action="store_true", help="with --all or --from: those of this folder's files too")
    parser.add_argument("--dry-run", action="store_true", help="show what would be taken, and change nothing")


def run(parsed: argparse.Namespace) -> int:
    file = edited_config.opened(parsed)
    sources = _sources(parsed)
    servers, equal = unite(server for it in sources.files for server in it.servers)
    preview = _planned(servers, file, edited_config.Storage(file, parsed.secrets))
    _print_preview(preview, sources.files, [*equal, *preview.skipped])
    if not preview.additions:
        print(
            "there is nothing to take over" + (f" called {', '.join(map(repr, sources.names))}" * bool(sources.names))
        )
        return 1 if sources.names else 0
    chosen = _chosen(parsed, sources, preview)
    if parsed.dry_run or not chosen:
        print("nothing was changed")
        return 0
    with edited_config.locked(file.place) as file:  # read anew: the question may have taken long
        storage = edited_config.Storage(file, parsed.secrets)
        made = _planned(chosen, file, storage)
        if made.additions:
            edited_config.save(file, made, storage)
    if not made.additions:
        print("nothing was changed")
        return 0
    _print_result(made, storage, file)
    names = [it.name for it in made.additions if it.is_enabled and not set(it.found.variables()) & made.to_set.keys()]
    return edited_config.tested(file, names, parsed.wait) if parsed.is_tested and names else 0


def _planned(found: Sequence[FoundServer], file: EditedFile, storage: edited_config.Storage) -> Plan:
    return plan(found, file.text.servers(), storage.new(), storage.variables, file.folder)


@dataclass(slots=True)
class _Sources:
    files: list[HostFile] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Servers that the person named."""
    is_named: bool = False
    """Whether the person named the servers by where they come from, and needs not be asked."""


def _sources(parsed: argparse.Namespace) -> _Sources:
    found, is_asked = _Sources(), False
    if parsed.command_line:
        found.files.append(_one(parsed.command_line))
    for word in parsed.words:
        if is_address(word):
            found.files.append(_one([word]))
        elif word == "-" or re.search(r"[/\\]|\.(?:jsonc?|toml|ya?ml)$", word) or Path(word).is_file():
            found.files.append(_file(word))
            is_asked = sys.stdin.isatty()
        else:
            found.names.append(word)
    found.is_named = bool(found.files) and not is_asked
    if not found.files:
        project = Path.cwd()
        places = all_places(System.current(), project if project != Path.home() else None)
        found.files = [
            read_place(place, os.environ, project)
            for place in places
            if not parsed.hosts or place.host.id in parsed.hosts
        ]
    return found


def _one(words: Sequence[str]) -> HostFile:
    entry = entry_of(words)
    return HostFile("the command line", [FoundServer(name_of(words), entry, "the command line", "", "user")])


def _file(word: str) -> HostFile:
    try:
        if word == "-":
            return read_text(sys.stdin.buffer.read(MAX_HOST_FILE_BYTES + 1), "stdin", os.environ)
        path = Path(word).expanduser()
        with path.open("rb") as opened:
            content = opened.read(MAX_HOST_FILE_BYTES + 1)
        return read_text(content, path.name, os.environ, path.absolute())
    except OSError as error:
        raise CodemodeError(f"{word}: can't be read: {error.strerror}") from error
    except SettingsError as error:
        raise CodemodeError(f"{word}: {error}") from error


def _print_preview(preview: Plan, files: Sequence[HostFile], skipped: Iterable[str]) -> None:
    lines: list[str] = []
    numbers = {id(it.found): number for number, it in enumerate(preview.additions, start=1)}
    width = max((len(it.name) for it in preview.additions), default=0)
    for file in files:
        of_file = [it for it in preview.additions if it.found.source.startswith(file.source)]
        if of_file or file.skipped:
            lines += ["", file.source]
        for it in of_file:
            lines.append(one_line(f"{numbers[id(it.found)]:>4}  {it.name:<{width}}  {_described(it)}", _MAX_CHARACTERS))
        lines += [one_line(f"      left out or changed: {it}", 2 * _MAX_CHARACTERS) for it in file.skipped]
    if skipped := list(skipped):
        lines += ["", "not taken:", *(one_line(f"      {it}", 2 * _MAX_CHARACTERS) for it in skipped)]
    if lines:
        show("\n".join([*lines[1:], ""]))


def _described(addition: Addition) -> str:
    entry, args = addition.entry, addition.entry.get("args")
    words = [str(entry.get("command", "")), *(map(str, args) if isinstance(args, (list, tuple)) else [])]
    notes = [] if addition.is_enabled else ["off"]
    notes += [f"{key}: {', '.join(it)}" for key in ("env", "headers") if isinstance(it := entry.get(key), dict)]
    notes += [f"headers from the command {it}" for it in [entry.get("headers_command")] if it]
    notes += ["restricted"] if "tools" in entry or addition.rules else []
    line = str(entry["url"]) if "url" in entry else shlex.join(words).replace("'${", "${").replace("}'", "}")
    return line + (f"  ({'; '.join(notes)})" if notes else "")


def _chosen(parsed: argparse.Namespace, sources: _Sources, preview: Plan) -> list[FoundServer]:
    additions = preview.additions
    if sources.names:
        return [it.found for name in sources.names for it in _named(name, additions)]
    if parsed.all or sources.is_named or (parsed.hosts and not sys.stdin.isatty()):
        taken = [it for it in additions if it.found.scope == "user" or parsed.project]
        if len(taken) < len(additions):
            show("servers of this folder's files are left out; take them by name, or with --project")
        return [it.found for it in taken]
    if parsed.dry_run:
        return []
    if not sys.stdin.isatty():
        raise CodemodeError(
            "stdin is not a terminal, so you can't be asked; name the servers, or give --all or --from HOST"
        )
    print("Which of them? Numbers (1 3-5), names, or `all`; nothing takes none: ", end="", flush=True)
    return [it.found for word in _words(sys.stdin.readline()) for it in _named(word, additions)]


def _words(answer: str) -> Iterable[str]:
    for word in answer.replace(",", " ").split():
        if span := re.fullmatch(r"(\d{1,4})-(\d{1,4})", word):
            yield from map(str, range(int(span[1]), int(span[2]) + 1))
        else:
            yield word


def _named(word: str, additions: Sequence[Addition]) -> list[Addition]:
    if word.casefold() == "all":
        return list(additions)
    found = [it for number, it in enumerate(additions, start=1) if word in (it.name, str(number))]
    if not found:
        names = ", ".join(it.name for it in additions)
        raise CodemodeError(f"there is no server {word!r} to take; there are {names}")
    return found


def _print_result(made: Plan, storage: edited_config.Storage, file: EditedFile) -> None:
    count = len(made.additions)
    show(
        f"added {count} server{'s' * (count != 1)} to {file.place.path}: {', '.join(it.name for it in made.additions)}"
    )
    if made.secrets:
        show(f"secrets stored in {storage.place}: {', '.join(made.secrets)}")
    edited_config.print_to_set(made, file)
