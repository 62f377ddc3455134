"""The `import` command: takes over the servers of hosts, or of a file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.cli import edited_config
from codemode_server.cli.import_preview import show_preview
from codemode_server.cli.terminal import show
from codemode_server.config.host_reading import (
    MAX_HOST_FILE_BYTES,
    FoundServer,
    SourceServers,
    read_place,
    read_regular,
    read_text,
)
from codemode_server.config.hosts import HOSTS, System, all_places
from codemode_server.config.import_plan import Addition, ImportPlan, plan, unite
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError, SettingsError

_FILE = re.compile(r"[/\\]|\.(?:jsonc?|toml|ya?ml)$")
"""Matches words that mean a file. A bare word never is one: the current folder may have a file of any name."""
_HOW_TO_ADD = "`codemode-server add NAME -- COMMAND …` or `add NAME URL` adds a server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "codemode-server import [options] [NAME … | FILE | -]"
    edited_config.add_arguments(parser)
    parser.add_argument("words", nargs="*", metavar="NAME", help="servers to take; or a file, or `-` for stdin")
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
    preview = _planned(servers, file, edited_config.SecretDestination(file, parsed.secrets))
    show_preview(preview, sources.files, [*equal, *preview.skipped])
    if not preview.additions:
        called = f" called {', '.join(map(repr, sources.names))}" if sources.names else ""
        others = "".join(map(_hint, sources.names)) if sources.names else f"; {_HOW_TO_ADD}"
        show(f"there is nothing to take over{called}{others}")
        return 1 if sources.names else 0
    chosen = _chosen(parsed, sources, preview)
    if parsed.dry_run or not chosen:
        print("nothing was changed")
        return 0
    with edited_config.locked(file.place) as file:  # read anew: the question may have taken long
        storage = edited_config.SecretDestination(file, parsed.secrets)
        made = _planned(chosen, file, storage)
        if made.additions:
            edited_config.save(file, made, storage)
    if not made.additions:
        print("nothing was changed")
        return 0
    _print_result(made, storage, file)
    names = [it.name for it in made.additions if it.is_enabled and not set(it.found.variables()) & made.to_set.keys()]
    code = edited_config.tested(file, names, parsed.wait) if parsed.is_tested and names else 0
    _print_next(made)
    return code


def _planned(found: Sequence[FoundServer], file: EditedFile, storage: edited_config.SecretDestination) -> ImportPlan:
    return plan(found, file.text.servers(), storage.new(), storage.variables, file.folder)


@dataclass(slots=True)
class _Sources:
    files: list[SourceServers] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Servers that the person named."""
    is_named: bool = False
    """True if the person named the servers by their source, so that no confirmation is needed."""


def _sources(parsed: argparse.Namespace) -> _Sources:
    found, is_asked = _Sources(), False
    if parsed.command_line or any("://" in word for word in parsed.words):
        raise CodemodeError(f"import reads files; {_HOW_TO_ADD}")
    for word in parsed.words:
        if word == "-" or _FILE.search(word):
            found.files.append(_file(word))
            is_asked = sys.stdin.isatty()
        else:
            found.names.append(word)
    found.is_named = bool(found.files) and not is_asked
    if not found.files:
        project = Path.cwd()
        places = all_places(System.current(), project if project != Path.home() else None)
        # The user's own files come first: of servers of one name, that of a project gets the suffix.
        places = sorted(places, key=lambda it: it.scope == "project")
        found.files = [
            read_place(place, os.environ, project)
            for place in places
            if not parsed.hosts or place.host.id in parsed.hosts
        ]
    return found


def _file(word: str) -> SourceServers:
    path = Path("stdin" if word == "-" else word).expanduser()
    try:
        if word == "-":
            return read_text(sys.stdin.buffer.read(MAX_HOST_FILE_BYTES + 1), path.name, os.environ)
        return read_text(read_regular(path), path.name, os.environ, path.absolute())
    except OSError as error:
        raise CodemodeError(f"{word}: can't be read: {error.strerror}") from error
    except SettingsError as error:
        lines = (f": {it}".removeprefix(f": {path.name}") for it in str(error).split("\n"))
        raise CodemodeError("\n".join(word + line for line in lines)) from error


def _chosen(parsed: argparse.Namespace, sources: _Sources, preview: ImportPlan) -> list[FoundServer]:
    additions = preview.additions
    if sources.names:
        return [it.found for it in (_named(name, additions) for name in sources.names)]
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
    return [it.found for word in _words(sys.stdin.readline()) for it in _answered(word, additions)]


def _words(answer: str) -> Iterable[str]:
    for word in answer.replace(",", " ").split():
        if span := re.fullmatch(r"(\d{1,4})-(\d{1,4})", word):
            yield from map(str, range(int(span[1]), int(span[2]) + 1))
        else:
            yield word


def _answered(word: str, additions: Sequence[Addition]) -> list[Addition]:
    """The additions that a word of the answer selects. A number is a row and never a name, which a file of others may
    have given."""
    if word.casefold() == "all":
        return list(additions)
    if not word.isdigit():
        return [_named(word, additions)]
    rows = {str(number): it for number, it in enumerate(additions, start=1)}
    if word not in rows:
        raise CodemodeError(f"there is no row {word}; the last one is {len(rows)}")
    return [rows[word]]


def _named(name: str, additions: Sequence[Addition]) -> Addition:
    found = next((it for it in additions if it.name == name), None)
    if found is None:
        names = ", ".join(it.name for it in additions)
        raise CodemodeError(f"there is no server {name!r} to take; there are {names}{_hint(name)}")
    return found


def _hint(word: str) -> str:
    """Hint at what else a word may mean that is no server's name."""
    if word == "all":
        return "; `--all` takes all of yours"
    return f"; write ./{word} for the file" if os.path.isfile(word) else ""  # noqa: PTH113 - any word is legal here


def _print_next(made: ImportPlan) -> None:
    """How the hosts whose servers were taken get them from us."""
    found = (it.found for it in made.additions)
    if hosts := list(dict.fromkeys(it.host for it in found if it.scope == "user" and it.host)):
        show("\nto have your hosts start codemode-server in place of these servers:")
        for host in hosts:
            print(f"  codemode-server connect {host} --take-out-imported")


def _print_result(made: ImportPlan, storage: edited_config.SecretDestination, file: EditedFile) -> None:
    count = len(made.additions)
    show(
        f"added {count} server{'s' * (count != 1)} to {file.place.path}: {', '.join(it.name for it in made.additions)}"
    )
    if made.secrets:
        show(f"secrets stored in {storage.place}: {', '.join(made.secrets)}")
    edited_config.print_to_set(made, file)
