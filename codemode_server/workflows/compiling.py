"""Compiles the text of a workflow to the program that it stands for.

The program has one public function, named as the workflow, with its inputs as parameters. The line table says which
line of the file each line of the program comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from codemode_server.config.document import Node, parse
from codemode_server.config.problems import Problems
from codemode_server.workflows.expressions import Scope
from codemode_server.workflows.steps import (
    NAME_RULE,
    Fields,
    Line,
    StepCompiler,
    WorkflowInput,
    block,
    is_function_name,
    read_inputs,
)

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
    """Modules of servers and skills that it imports."""
    check_source: str
    """The steps outside of a function, where the check of programs can tell what surely fails."""
    check_lines: Mapping[int, int]
    """Line of `check_source` → line of the file."""

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(one.parameter for one in self.inputs)})"


def compile_workflow(name: str, text: str, file: str) -> CompiledWorkflow:
    """The program of a workflow; `file` names it in messages. Raises `SettingsError`: with all problems, each with its
    line."""
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
    """The steps as a function of checked inputs, and the public function."""
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
