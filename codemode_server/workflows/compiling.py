"""Compiles the text of a workflow to the program that it stands for.

The program has one public function, named as the workflow, with its inputs as parameters. The line table says which
line of the file each line of the program comes from.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codemode_server.config.document import Node, parse
from codemode_server.config.problems import Problems
from codemode_server.workflows.expressions import Scope
from codemode_server.workflows.fields import NAME_RULE, Fields, is_function_name
from codemode_server.workflows.inputs import WorkflowInput, literal, read_inputs
from codemode_server.workflows.steps import StepCompiler

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


def _answered(answer, may_decline):
    if answer["action"] == "accept":
        return answer["values"]
    if may_decline:
        return None
    raise WorkflowStopped(f"the user did not answer the question ({answer['action']})")


def _awaited(value):
    return _run_to_its_end(value) if _is_coroutine(value) else value


def _error(error):
    return {"kind": error.kind, "message": error.message}
'''
"""What every program of a workflow begins with."""


@dataclass(frozen=True, slots=True)
class CompiledWorkflow:
    """A workflow as a program."""

    name: str
    file: str
    """As messages name it, `workflows/<name>.yaml`."""
    description: str
    inputs: tuple[WorkflowInput, ...]
    source: str
    """A module with the function `name`."""
    lines: Mapping[int, int]
    """Line of the source → line of the file."""
    modules: tuple[str, ...]
    """What it imports of servers and skills."""
    check_source: str
    """The steps outside of a function, where the check of programs can tell what surely fails."""
    check_lines: Mapping[int, int]

    @property
    def signature(self) -> str:
        return f"{self.name}({ast.unparse(_parameters(self.inputs))})"


def compile_workflow(name: str, text: str, file: str) -> CompiledWorkflow:
    """The program of a workflow; `file` names it in messages.

    Raises:
        SettingsError: with all problems, each with its line.
    """
    problems = Problems(file)
    root = parse(text, problems, is_json=False)
    _check_numbers(root, problems)
    if not is_function_name(name):
        problems.add(0, "", f"the name of a workflow's file {NAME_RULE} or built-in function")
        raise problems.error()
    workflow = Fields(root, _KEYS, problems)
    inputs = read_inputs(workflow)
    compiler = StepCompiler(problems)
    scope = Scope(inputs=frozenset(it.name for it in inputs))
    steps, after = compiler.steps(workflow.items("steps"), scope)
    if not workflow.items("steps"):
        workflow.complain(root, "needs `steps`")
    result = workflow.get("result")
    if result is not None:
        returned = ast.Return(compiler.value(result, after))
        compiler.lines[returned] = result.line
        steps.append(returned)
    if problems.found:
        raise problems.error()
    description = " ".join(workflow.text("description").split())
    modules = tuple(dict.fromkeys(it for it, _ in compiler.imports))
    imports = compiler.import_statements()
    try:
        written = _written([*imports, *_functions(name, description, inputs, steps)], compiler.lines)
        compile(written[0], file, "exec", dont_inherit=True)
        checked = _written([*imports, *_input_variables(inputs), *steps], compiler.lines)
    except (SyntaxError, RecursionError, MemoryError) as error:  # "too many statically nested blocks"
        problems.add(0, "", f"the steps are nested too deep: {error}")
        raise problems.error() from None
    return CompiledWorkflow(name, file, description, tuple(inputs), *written, modules, *checked)


def _input_variables(inputs: list[WorkflowInput]) -> list[ast.stmt]:
    """The inputs, of which the check only knows the types."""
    return [
        ast.AnnAssign(ast.Name(f"input_{it.name}", ast.Store()), it.annotation, it.check_of(ast.Constant(None)), 1)
        for it in inputs
    ]


def _functions(name: str, description: str, inputs: list[WorkflowInput], steps: list[ast.stmt]) -> list[ast.stmt]:
    """The steps as a function of checked inputs, and the public function."""
    checked = [ast.arg(f"input_{it.name}", it.annotation) for it in inputs]
    run = _function("_run", ast.arguments([], checked, None, [], [], None, []), steps or [ast.Pass()])
    call = ast.Call(ast.Name("_run", ast.Load()), [it.check_of(ast.Name(it.name, ast.Load())) for it in inputs], [])
    notes = [f"        {it.name}: {it.description}" for it in inputs if it.description]
    documentation = "\n".join([description or f"The workflow {name}.", *(["", "    Args:", *notes] if notes else [])])
    public = _function(name, _parameters(inputs), [ast.Expr(ast.Constant(documentation)), ast.Return(call)])
    return [run, public]


def _parameters(inputs: list[WorkflowInput] | tuple[WorkflowInput, ...]) -> ast.arguments:
    defaults = [literal(it.default) for it in inputs if not it.is_required]
    return ast.arguments([], [it.parameter for it in inputs], None, [], [], None, defaults)


def _function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    return ast.FunctionDef(name, arguments, body, [], lineno=0)


def _written(statements: list[ast.stmt], known: Mapping[ast.stmt, int]) -> tuple[str, dict[int, int]]:
    """The program with these statements behind the prelude, and its line table."""
    module = ast.fix_missing_locations(ast.Module(statements, []))
    source = f"{_PRELUDE}\n\n{ast.unparse(module)}\n"
    written = ast.parse(source)
    # Both trees have the same statements in the same order.
    theirs = _statements(ast.Module(written.body[-len(statements) :], []))
    pairs = zip(_statements(module), theirs, strict=True)
    return source, {other.lineno: known[one] for one, other in pairs if one in known}


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _statements(child)


def _check_numbers(node: Node, problems: Problems) -> None:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one.value, float) and not math.isfinite(one.value):
            problems.add(one.line, one.where, "must be a finite number")
        waiting += one.value if isinstance(one.value, list) else one.entries.values()
