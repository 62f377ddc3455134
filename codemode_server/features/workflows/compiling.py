"""Finds the workflows of the folder, where people put them and programs can't, and compiles each to a program.

The program has one public function, named as the workflow, with its inputs as parameters. The line table says which
line of the file each line of the program comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.config.document import Node, parse
from codemode_server.config.places import MAX_BYTES
from codemode_server.config.problems import Problems, nearest, printable
from codemode_server.domain.errors import CodemodeError, SettingsError, UnknownTool
from codemode_server.domain.skills import Skill
from codemode_server.features.workflows.expressions import Scope
from codemode_server.features.workflows.steps import (
    NAME_RULE,
    Fields,
    Line,
    StepCompiler,
    WorkflowInput,
    block,
    is_function_name,
    read_inputs,
)
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.text import clean_line

_KEYS = ("description", "inputs", "steps", "result")
_PRELUDE = '''\
import re as _re
from asyncio import iscoroutine as _is_coroutine, run as _run_to_its_end
from time import sleep as _sleep

from codemode import ToolError

_KINDS = {"text": str, "number": (int, float), "integer": int, "boolean": bool, "list": list, "object": dict}


class WorkflowStopped(Exception):
    """The workflow ended before its last step."""


def _checked(name, value, kind, rules, required):
    if value is None and not required:
        return None
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise TypeError(f"the input {name!r} must be of the type {kind}, not {type(value).__name__}")
    if "one_of" in rules and value not in rules["one_of"]:
        raise ValueError(f"the input {name!r} must be one of {rules['one_of']}")
    if "pattern" in rules and not (isinstance(value, str) and _re.fullmatch(rules["pattern"], value)):
        raise ValueError(f"the input {name!r} must match {rules['pattern']}")
    size = value if isinstance(value, (int, float)) else len(value)
    if "min" in rules and size < rules["min"]:
        raise ValueError(f"the input {name!r} must be at least {rules['min']:g}")
    if "max" in rules and size > rules["max"]:
        raise ValueError(f"the input {name!r} must be at most {rules['max']:g}")
    return value


def _answered(answer):
    if answer["action"] == "accept":
        return answer["values"]
    raise WorkflowStopped(f"the user did not answer the question ({answer['action']})")


def _awaited(value):
    return _run_to_its_end(value) if _is_coroutine(value) else value


def _error(error):
    return {"kind": error.kind, "message": error.message}
'''


@dataclass(frozen=True, slots=True)
class CompiledWorkflow:
    name: str
    file: str
    """As messages name it, `workflows/<name>.yaml`."""
    description: str
    inputs: tuple[WorkflowInput, ...]
    source: str
    modules: tuple[str, ...]
    check_source: str
    """The steps outside of a function, where the check of programs can tell what surely fails."""
    check_lines: Mapping[int, int]

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(one.parameter for one in self.inputs)})"


def compile_workflow(name: str, text: str, file: str) -> CompiledWorkflow:
    """The program of a workflow. Raises `SettingsError` with all problems, each with its line in `file`."""
    problems = Problems(file)
    root = parse(text, problems, is_json=False)
    _check_numbers(root, problems)
    if not is_function_name(name):
        problems.add(0, "", f"the name of a workflow's file {NAME_RULE} or built-in function")
        raise problems.error()
    workflow = Fields(root, _KEYS, problems)
    inputs = read_inputs(workflow)
    compiler = StepCompiler(problems, Scope(inputs=frozenset(one.name for one in inputs)))
    if not workflow.items("steps"):
        workflow.complain(root, "needs `steps`")
    steps = compiler.steps(workflow.items("steps"))
    if (result := workflow.get("result")) is not None:
        steps.append(Line(f"return {compiler.value(result)}", result.line))
    description = " ".join(workflow.text("description").split())
    if problems.found:
        raise problems.error()
    imports = list(compiler.imports.values())
    source, _ = _written([*imports, *_functions(name, description, inputs, steps)])
    variables = [Line(f"input_{one.name}: {one.annotation} = {one.checked('None')}") for one in inputs]
    check_source, check_lines = _written([*imports, *variables, *steps])
    try:
        compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, RecursionError, MemoryError) as error:  # "too many statically nested blocks"
        problems.add(0, "", f"the steps are nested too deep: {error}")
        raise problems.error() from None
    modules = tuple(dict.fromkeys(module for module, _ in compiler.imports))
    return CompiledWorkflow(name, file, description, tuple(inputs), source, modules, check_source, check_lines)


def _functions(name: str, description: str, inputs: list[WorkflowInput], steps: list[Line]) -> list[Line]:
    notes = [f"        {one.name}: {one.description}" for one in inputs if one.description]
    documentation = "\n".join([description or f"The workflow {name}.", *(["", "    Args:", *notes] if notes else [])])
    parameters = ", ".join(f"input_{one.name}: {one.annotation}" for one in inputs)
    call = Line(f"return _run({', '.join(one.checked(one.name) for one in inputs)})")
    public = Line(f"def {name}({', '.join(one.parameter for one in inputs)}):")
    return [
        *block(Line(f"def _run({parameters}):"), steps),
        Line(""),
        *block(public, [Line(repr(documentation)), call]),
    ]


def _written(lines: list[Line]) -> tuple[str, dict[int, int]]:
    """The program with these lines behind the prelude, and its line table."""
    first = _PRELUDE.count("\n") + 3
    numbers = {number: line.at for number, line in enumerate(lines, start=first) if line.at}
    return f"{_PRELUDE}\n\n" + "".join(f"{line.text}\n" for line in lines), numbers


def _check_numbers(node: Node, problems: Problems) -> None:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one.value, float) and not math.isfinite(one.value):
            problems.add(one.line, one.where, "must be a finite number")
        waiting += one.value if isinstance(one.value, list) else one.entries.values()


PACKAGE = "workflows"
_SUFFIXES = (".yaml", ".yml", ".json")
_SUMMARY_CHARACTERS = 120
_SIGNATURE_CHARACTERS = 240


@dataclass(slots=True)
class Workflows:
    """All workflows of one folder. A file is compiled again only if it changed. Blocks briefly."""

    folder: Path
    _known: dict[str, tuple[FileStamp, CompiledWorkflow | SettingsError]] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self._files())

    def compiled(self, name: str) -> CompiledWorkflow:
        """The program of a workflow. Raises `UnknownTool` with the nearest name, `SettingsError`: its file has
        mistakes."""
        if (path := self._files().get(name)) is None:
            raise UnknownTool(self.why_missing(name))
        try:
            found = path.stat()
            stamp = FileStamp.of(found)
            known = self._known.get(name)
            if known is None or known[0] != stamp:
                known = self._known[name] = stamp, self._compile(name, path, found.st_size)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{PACKAGE}/{path.name}: can't be read: {error}") from error
        if isinstance(known[1], SettingsError):
            raise known[1]
        return known[1]

    def source(self, name: str) -> str:
        """The program as text, for programs that import it. Raises `UnknownTool`, also if its file has mistakes."""
        try:
            return self.compiled(name).source
        except SettingsError as error:
            raise UnknownTool(f"the workflow {name!r} has mistakes, which the user has to mend: {error}") from error

    def text(self, name: str) -> str:
        """Its file, below the line that imports it, for people and models to read. Raises as `compiled`."""
        found = self.compiled(name)
        text = self._files()[name].read_text(encoding="utf-8-sig")
        return f"# from {PACKAGE} import {name}\n# {found.signature}\n{text}"

    def entries(self) -> list[Skill]:
        return list(map(self._entry, self.names()))

    def why_missing(self, name: str) -> str:
        """An error that there is no such workflow, with the nearest name; empty if it exists."""
        names = self.names()
        if name in names:
            return ""
        meant = nearest(name, names)
        others = f"there are: {', '.join(names[:20])}" if names else "there are none yet"
        return f"there is no workflow {printable(name)!r}; {f'did you mean {meant!r}?' if meant else others}"

    def _entry(self, name: str) -> Skill:
        try:
            found = self.compiled(name)
        except CodemodeError:  # one bad file hides no other
            return Skill(name, "(has mistakes; the user has to mend it)", package=PACKAGE)
        summary = clean_line(found.description, _SUMMARY_CHARACTERS)
        return Skill(name, summary, name, clean_line(found.signature, _SIGNATURE_CHARACTERS), package=PACKAGE)

    def _files(self) -> dict[str, Path]:
        if not self.folder.is_dir():
            return {}
        return {
            path.stem: path
            for path in sorted(self.folder.iterdir(), reverse=True)
            if path.suffix in _SUFFIXES and path.stem.isidentifier() and path.is_file() and not path.is_symlink()
        }

    def _compile(self, name: str, path: Path, size: int) -> CompiledWorkflow | SettingsError:
        file = f"{PACKAGE}/{path.name}"
        if size > MAX_BYTES:
            return SettingsError(f"{file}: is larger than 1 MiB, which no workflow needs")
        try:
            return compile_workflow(name, path.read_text(encoding="utf-8-sig"), file)
        except SettingsError as error:
            return error
