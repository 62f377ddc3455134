"""The `import` command: takes over the servers of hosts, or of a file. It first shows what it would take; of files that
others may have written, all that will run."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from codemode_server.cli import edited_config
from codemode_server.cli.terminal import is_confirmed, show
from codemode_server.config.commands import relative_paths
from codemode_server.config.host_reading import (
    MAX_HOST_FILE_BYTES,
    FoundServer,
    SourceServers,
    read_text,
)
from codemode_server.config.hosts import HOSTS, project_of
from codemode_server.config.import_plan import Addition, shared_variables, unite
from codemode_server.config.places import with_home
from codemode_server.config.saving import EditedFile
from codemode_server.config.secrecy import looks_secret
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.records.server_edits import SecretDestination, host_files, line_of, planned_import, save
from codemode_server.support.text import legible, one_line
from codemode_server.support.untrusted_files import read_regular

_FILE = re.compile(r"[/\\]|\.(?:jsonc?|toml|ya?ml)$")
"""Matches words that mean a file. A bare word never is one: the current folder may have a file of any name."""
_HOW_TO_ADD = "`codemode-server add NAME -- COMMAND …` or `add NAME URL` adds a server"
_MAX_CHARACTERS = 160
_MAX_COLUMNS = 120
_MARGIN = "      | "
"""Begins each line of details, so that no text in one looks like a row."""
_LOADING = re.compile(r"PATH|LD_.*|DYLD_.*|NODE_OPTIONS|PYTHON.*", re.IGNORECASE | re.DOTALL)
"""Variables that decide which code a program loads."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "codemode-server import [options] [NAME … | FILE | -]"
    edited_config.add_arguments(parser)
    parser.add_argument("words", nargs="*", metavar="NAME", help="servers to take; or a file, or `-` for stdin")
    parser.add_argument(
        "--from", dest="hosts", action="append", choices=list(HOSTS), metavar="HOST", help="only its servers"
    )
    parser.add_argument("--all", action="store_true", help="take all of the user's servers without being asked")
    parser.add_argument("--yes", dest="all", action="store_true", help="the same; of a file, all that is in it")
    parser.add_argument("--project", action="store_true", help="with --all or --from: those of this folder's files too")
    parser.add_argument(
        "--env", action="store_true", help="give all servers the proxies and certificates that this shell has"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be taken, and change nothing")


def run(parsed: argparse.Namespace) -> int:
    if parsed.command_line or any("://" in word for word in parsed.words):
        raise CodemodeError(f"import reads files; {_HOW_TO_ADD}")
    file = EditedFile(edited_config.located(parsed))
    paths = [word for word in parsed.words if word == "-" or _FILE.search(word)]
    names = [word for word in parsed.words if word not in paths]
    files = [_file(word) for word in paths] or list(host_files(parsed.hosts or (), _project()))
    servers, equal = unite(server for it in files for server in it.servers)
    preview = planned_import(servers, file, SecretDestination(file, parsed.secrets))
    if page := _page(preview.additions, files, [*equal, *preview.skipped]):
        show(page)
    shared = shared_variables(servers, os.environ, file.text.environment())
    if not preview.additions and not (parsed.env and shared):
        called = f" called {', '.join(map(repr, names))}" if names else ""
        others = "".join(map(_hint, names)) if names else f"; {_HOW_TO_ADD}"
        show(f"there is nothing to take over{called}{others}")
        return 1 if names else 0
    are_named = bool(parsed.hosts and not paths)
    chosen = _chosen(parsed, names, preview.additions, are_named=are_named) if preview.additions else []
    chosen = [_in_folder(parsed, it) for it in chosen]
    if not (chosen or parsed.env) or not _takes_environment(parsed, shared):
        shared = {}
    if parsed.dry_run or not (chosen or shared):
        print("nothing was changed")
        return 0
    with edited_config.locked(file.place) as file:  # read anew: the question may have taken long
        storage = SecretDestination(file, parsed.secrets)
        made = planned_import(chosen, file, storage, shared)
        if made.additions or made.env:
            save(file, made, storage)
    if not (made.additions or made.env):
        print("nothing was changed")
        return 0
    edited_config.print_added(made, storage, file)
    enabled = [it.name for it in made.additions if it.is_enabled and not set(it.found.variables()) & made.to_set.keys()]
    code = edited_config.tested(file, enabled, parsed.wait) if parsed.is_tested and enabled else 0
    if hosts := dict.fromkeys(it.host for it in files if it.host and it.scope == "user" and it.servers):
        show("\nto have your hosts start codemode-server in place of these servers:")
        print(f"  codemode-server connect {' '.join(hosts)}")
    return code


def _in_folder(parsed: argparse.Namespace, found: FoundServer) -> FoundServer:
    """The server with the folder in which its relative paths begin, if the person says which; a project's has one."""
    entry = found.entry
    args, env = entry.get("args"), entry.get("env")
    values = map(str, env.values()) if isinstance(env, Mapping) else ()
    words = map(str, args) if isinstance(args, (list, tuple)) else ()
    paths = relative_paths(words, values)
    if "command" not in entry or "cwd" in entry or not paths:
        return found
    has = f"{found.name} has a relative path, {paths[0]!r}"
    if parsed.all or not sys.stdin.isatty():
        show(f"{has}: it begins in each host's folder; `cwd` in upstream.yaml names another")
        return found
    while True:
        print(f"{has}. In which folder does it begin? Enter for that of each host: ", end="", flush=True)
        answer = sys.stdin.readline().strip()
        if not answer or with_home(answer).is_dir():
            break
        show(f"there is no folder {answer}")
    return replace(found, entry={**entry, "cwd": os.path.abspath(with_home(answer))}) if answer else found  # noqa: PTH100 - links stay


def _takes_environment(parsed: argparse.Namespace, shared: Mapping[str, str]) -> bool:
    """True if all servers shall get these variables; asks the person."""
    if parsed.env or not shared:
        return bool(shared)
    names = ", ".join(shared)
    if parsed.dry_run or parsed.all or not sys.stdin.isatty():
        show(f"servers don't get {names}; `codemode-server import --env` gives them to all")
        return False
    return is_confirmed(
        f"Servers don't get {names}, which you have here. Give them to all servers? [Y/n] ", default=True
    )


def _project() -> Path | None:
    """The folder whose files are of a project, if it is not the home folder."""
    here = Path.cwd()
    return here if here != Path.home() else None


def _file(word: str) -> SourceServers:
    path = Path("stdin" if word == "-" else word).expanduser()
    try:
        if word == "-":
            return read_text(sys.stdin.buffer.read(MAX_HOST_FILE_BYTES + 1), path.name, os.environ)
        content = read_regular(path, MAX_HOST_FILE_BYTES)
        return read_text(content, path.name, os.environ, path.absolute(), project_of(path.absolute()))
    except OSError as error:
        stdin = "; `-` reads stdin" if path.is_fifo() else ""
        raise CodemodeError(f"{word}: can't be read: {error.strerror}{stdin}") from error
    except SettingsError as error:
        raise CodemodeError("\n".join(f"{word}: {line}" for line in str(error).split("\n"))) from error


def _chosen(
    parsed: argparse.Namespace, names: list[str], additions: Sequence[Addition], *, are_named: bool
) -> list[FoundServer]:
    if names:
        return [_named(name, additions).found for name in names]
    if parsed.all or (are_named and not sys.stdin.isatty()):  # a person who is there has to see what will run first
        taken = [it.found for it in additions if it.found.scope == "user" or parsed.project]
        if len(taken) < len(additions):
            show("servers of this folder's files are left out; take them by name, or with --project")
        return taken
    if parsed.dry_run or (parsed.env and not sys.stdin.isatty()):
        return []
    if not sys.stdin.isatty():
        raise CodemodeError(
            "stdin is not a terminal, so you can't be asked; name the servers, or give --yes or --from HOST"
        )
    print("Which of them? Numbers, or `all`; Enter for none: ", end="", flush=True)
    answer = sys.stdin.readline().replace(",", " ").split()
    if [it.casefold() for it in answer] == ["all"]:
        return [it.found for it in additions]
    if [it.casefold() for it in answer] in (["n"], ["no"], ["none"]):
        return []
    rows = {str(number): it.found for number, it in enumerate(additions, start=1)}
    if wrong := [it for it in answer if it not in rows]:
        raise CodemodeError(f"there is no row {wrong[0]}; the last one is {len(rows)}")
    return [rows[it] for it in answer]


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


def _page(additions: Sequence[Addition], files: Sequence[SourceServers], skipped: Sequence[str]) -> str:
    lines: list[str] = []
    numbers = {id(addition.found): number for number, addition in enumerate(additions, start=1)}
    for file in files:
        of_file = [addition for addition in additions if addition.found.source.startswith(file.source)]
        if of_file or file.skipped:
            lines += ["", file.source]
        for addition in of_file:
            lines.append(one_line(f"{numbers[id(addition.found)]:>4}  {_row(addition)}", _MAX_CHARACTERS))
            lines += _wrapped(_details(addition))
        lines += [one_line(f"      note: {note}", 2 * _MAX_CHARACTERS) for note in file.skipped]
    if skipped:
        lines += ["", "not taken:", *(one_line(f"      {note}", 2 * _MAX_CHARACTERS) for note in skipped)]
    return "\n".join([*lines[1:], ""]) if lines else ""


def _is_whole(addition: Addition) -> bool:
    """True if all that will run is shown: somebody else may have written the file of a project, or a given one."""
    return addition.found.scope == "project" or not addition.found.host


def _row(addition: Addition) -> str:
    entry = addition.entry
    notes = ["from this folder"] if addition.found.scope == "project" else []
    notes += [f"in {entry['cwd']}"] if entry.get("cwd") and not _is_whole(addition) else []
    notes += [] if addition.is_enabled else ["off"]
    notes += [f"{key}: {', '.join(names)}" for key in ("env", "headers") if isinstance(names := entry.get(key), dict)]
    if command := entry.get("headers_command"):
        notes.append(f"headers from the command {command}")
    notes += ["restricted"] if "tools" in entry else []
    line = "" if _is_whole(addition) else line_of(addition.entry)
    return "  ".join(filter(None, [addition.name, line, f"({'; '.join(notes)})" if notes else ""]))


def _details(addition: Addition) -> Iterator[str]:
    entry = addition.entry
    if _is_whole(addition):
        yield f"{'address' if 'url' in entry else 'command'}: {line_of(addition.entry)}"
        yield from (f"{key}: {entry[key]}" for key in ("headers_command", "cwd") if entry.get(key))
    env = entry.get("env")
    if not isinstance(env, Mapping):
        return
    for name, value in env.items():
        if _LOADING.fullmatch(name):
            yield f"env {name}={value}"
        elif _is_whole(addition):  # known secrets are references already
            is_hidden = looks_secret(name) and not re.fullmatch(r"\$\{[^}]*\}", str(value))
            yield f"env {name}={'***' if is_hidden else value}"


def _wrapped(details: Iterable[str]) -> Iterator[str]:
    columns = min(shutil.get_terminal_size().columns, _MAX_COLUMNS) - len(_MARGIN) - 1
    for detail in details:
        text = legible(re.sub(r"[ \u2800]{3,}", lambda it: f" [{len(it[0])} spaces] ", detail))
        width = max(columns if text.isascii() else columns // 2, 20)  # other characters may be two columns wide
        for line in re.findall(rf".{{1,{width}}}(?: |$)|.{{1,{width}}}", text):  # textwrap is quadratic in a long word
            yield _MARGIN + line.rstrip()
