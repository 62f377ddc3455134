"""The page that an import shows before it takes servers: for those that others may have written, all that will run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence

from codemode_server.cli.terminal import show
from codemode_server.config.host_reading import SourceServers
from codemode_server.config.import_plan import Addition, ImportPlan
from codemode_server.config.secrecy import looks_secret
from codemode_server.text import escaped, one_line

_MAX_CHARACTERS = 160
_MAX_COLUMNS = 120
_MARGIN = "      | "
"""Begins each line of details, so that no text in one looks like a row."""
_LOADING = re.compile(r"PATH|LD_.*|DYLD_.*|NODE_OPTIONS|PYTHON.*", re.IGNORECASE | re.DOTALL)
"""Variables that decide which code a program loads."""
_BLANKS = re.compile("[ \\u2800]{3,}")
"""Could push the rest of a command out of sight; U+2800 is printable, and blank."""


def show_preview(preview: ImportPlan, files: Sequence[SourceServers], skipped: Iterable[str]) -> None:
    lines: list[str] = []
    numbers = {id(it.found): number for number, it in enumerate(preview.additions, start=1)}
    width = max((len(it.name) for it in preview.additions), default=0)
    for file in files:
        of_file = [it for it in preview.additions if it.found.source.startswith(file.source)]
        if of_file or file.skipped:
            lines += ["", file.source]
        for it in of_file:
            lines.append(one_line(f"{numbers[id(it.found)]:>4}  {it.name:<{width}}  {_described(it)}", _MAX_CHARACTERS))
            lines += _wrapped(_details(it))
        lines += [one_line(f"      note: {it}", 2 * _MAX_CHARACTERS) for it in file.skipped]
    if skipped := list(skipped):
        lines += ["", "not taken:", *(one_line(f"      {it}", 2 * _MAX_CHARACTERS) for it in skipped)]
    if lines:
        show("\n".join([*lines[1:], ""]))


def _is_whole(addition: Addition) -> bool:
    """True if everything that will run is shown: somebody else may have written the file of a project, or a given
    one."""
    return addition.found.scope == "project" or not addition.found.host


def _described(addition: Addition) -> str:
    entry = addition.entry
    notes = ["from this folder"] if addition.found.scope == "project" else []
    notes += [] if addition.is_enabled else ["off"]
    notes += [f"{key}: {', '.join(it)}" for key in ("env", "headers") if isinstance(it := entry.get(key), dict)]
    notes += [f"headers from the command {it}" for it in [entry.get("headers_command")] if it]
    notes += ["restricted"] if "tools" in entry or addition.rules else []
    described = f"({'; '.join(notes)})" if notes else ""
    return described if _is_whole(addition) else f"{_line(addition)}  {described}".rstrip()


def _line(addition: Addition) -> str:
    """The address, or the command with its arguments."""
    entry, args = addition.entry, addition.entry.get("args")
    if "url" in entry:
        return str(entry["url"])
    words = [str(entry.get("command", "")), *(map(str, args) if isinstance(args, (list, tuple)) else [])]
    return shlex.join(words).replace("'${", "${").replace("}'", "}")


def _details(addition: Addition) -> Iterator[str]:
    entry = addition.entry
    if _is_whole(addition):
        yield f"{'address' if 'url' in entry else 'command'}: {_line(addition)}"
        yield from (f"{key}: {entry[key]}" for key in ("headers_command", "cwd") if entry.get(key))
    env = entry.get("env")
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if _LOADING.fullmatch(name):
            yield f"env {name}={value}"
        elif _is_whole(addition):
            yield f"env {name}={_unless_secret(name, str(value))}"


def _unless_secret(name: str, value: str) -> str:
    """The value, in which known secrets are references already."""
    return "***" if looks_secret(name) and not re.fullmatch(r"\$\{[^}]*\}", value) else value


def _wrapped(details: Iterable[str]) -> Iterator[str]:
    columns = min(shutil.get_terminal_size().columns, _MAX_COLUMNS) - len(_MARGIN) - 1
    for detail in details:
        text = _BLANKS.sub(lambda found: f" [{len(found[0])} blanks] ", escaped(detail))
        width = max(columns if text.isascii() else columns // 2, 20)  # other characters may be two columns wide
        for line in re.findall(rf".{{1,{width}}}(?: |$)|.{{1,{width}}}", text):  # textwrap is quadratic in a long word
            yield _MARGIN + line.rstrip()
