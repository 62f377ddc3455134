"""The lines of a program, and of the skills that it imports, that may make a call, from their texts alone.

Nothing that the running program does takes part in it: a program can add lines that look like the call, and all of them
are shown, but it can't have one of them shown in place of another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from codemode_server.executions.preflight.reading import Reading, read


@dataclass(frozen=True, slots=True)
class ProgramTexts:
    """A program with what it imports."""

    code: str = ""
    """Empty for a call without a program."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """The texts of the skills that it has imported, by their files: `skills/triage.py`."""

    @property
    def size(self) -> int:
        return len(self.code) + sum(map(len, self.skills.values()))


MAX_LINES = 4
MAX_SKILLS = 4


def lines_of_call(code: str, server: str, tool: str) -> tuple[str, ...]:
    """The lines that name the tool, or what it is imported as, each as `12: create_issue(owner="ada")`; names are those
    of Python. Empty if no line does, for instance since the program computes the name."""
    reading = read(code)
    if reading is None:
        return ()
    found = _line_numbers(reading, server, tool)
    lines = dict(enumerate(reading.text.splitlines(), start=1))
    shown = [f"{number}: {lines.get(number, '').strip()}" for number in found[:MAX_LINES]]
    return (*shown, *([f"and {len(found) - MAX_LINES} more lines that name it"] if len(found) > MAX_LINES else []))


def line_numbers(code: str, tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """The numbers of the lines that name each tool, by the names of server and tool in Python."""
    reading = read(code)
    return {} if reading is None else {it: _line_numbers(reading, *it) for it in tools}


def lines_of_skills(skills: Mapping[str, str], server: str, tool: str) -> tuple[str, ...]:
    """The same of skills, by their files, each as `skills/triage.py 12: create_issue(owner="ada")`."""
    found = {file: lines for file, text in skills.items() if (lines := lines_of_call(text, server, tool))}
    shown = [f"{file} {line}" for file, lines in list(found.items())[:MAX_SKILLS] for line in lines]
    return (*shown, *([f"and {len(found) - MAX_SKILLS} more skills that name it"] if len(found) > MAX_SKILLS else []))


def _line_numbers(reading: Reading, server: str, tool: str) -> list[int]:
    names = {tool} | {alias for node in reading.nodes for alias in _aliases(node, server, tool)}
    return sorted({node.lineno for node in reading.nodes if isinstance(node, ast.expr) and _names(node, names)})


def _aliases(node: ast.AST, server: str, tool: str) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module == f"servers.{server}":
        return [it.asname for it in node.names if it.name == tool and it.asname]
    return []


def _names(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name in names
    return False
