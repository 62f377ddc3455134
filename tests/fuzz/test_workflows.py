"""Whatever a workflow's file holds, it is refused or becomes a program in which the file's texts are data only."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from hypothesis import example, find, given
from hypothesis import strategies as st

from codemode_server.domain.errors import SettingsError
from codemode_server.workflows.compiling import compile_workflow
from codemode_server.workflows.expressions import FUNCTIONS, METHODS, NotAnExpression, Scope, expression
from tests.fuzz.strategies import texts

PREFIXES = ("input_", "step_", "each_", "local_", "servers_", "skills_")
OWN = {
    "_checked",
    "_answered",
    "_awaited",
    "_error",
    "_sleep",
    "_run",
    "ToolError",
    "WorkflowStopped",
    "RuntimeError",
    "flow",
}
OWN |= {"attempt", "caught", "caught_error", "round_number", "str", "float", "int", "bool", "list", "dict", "range"}
METHODS_OF_OURS = METHODS | {"append", "kind", "join"}


def body_of(source: str) -> list[ast.stmt]:
    """The statements behind the prelude: the imports and the two functions."""
    body = ast.parse(source).body
    first = next(at for at, it in enumerate(body) if isinstance(it, ast.FunctionDef) and it.name == "_error") + 1
    return body[first:]


def blanked(source: str) -> str:
    """The program with every constant left out."""
    module = ast.Module(body_of(source), [])
    for node in ast.walk(module):
        if isinstance(node, ast.Constant):
            node.value = 0
    return ast.dump(module)


def names_in(source: str) -> set[str]:
    """Each name that the program uses, defines, imports or reads as an attribute, without those that are made of a
    prefix, the modules of servers and skills, the methods of expressions, and the inputs in the public function."""
    found, public = set[str](), ""
    for statement in body_of(source):
        used = {it for node in ast.walk(statement) for it in _names_of(node)}
        if isinstance(statement, ast.FunctionDef) and statement.name != "_run":
            public = statement.name
            used -= {it.arg for it in statement.args.args}
        found |= used
    return {it for it in found - METHODS_OF_OURS - {public} if not it.startswith(PREFIXES)}


def _names_of(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.Import(names=aliases):
            return [it.name for it in aliases]
        case ast.ImportFrom(module=module, names=aliases):
            is_ours = (
                module is not None and re.fullmatch(r"(servers|skills)\.[A-Za-z_][A-Za-z0-9_]*", module) is not None
            )
            return [it.asname or it.name for it in aliases] + ([] if is_ours else [f"from {module}"])
    return []


def flow(value: Any) -> str:
    step: dict[str, Any] = {"id": "a", "call": "github.create_issue", "with": {"title": value, "rows": [value]}}
    return json.dumps(
        {
            "description": value,
            "inputs": {"repo": {"type": "text", "description": value, "default": value, "one_of": [value]}},
            "steps": [
                step,
                {"id": "form", "ask": value, "fields": {"name": {"title": value, "options": [value]}}},
                {"if": "steps.a.ok", "then": [{"fail": value}]},
                {"id": "b", "set": {"key": value, "list": [value]}},
            ],
            "result": {"all": value},
        }
    )


@given(texts)
@example("'); import os; os.system('x') #")
@example('"""\n\nimport os\n')
@example("\\N{BULLET}\\x00\u2028")
def test_a_text_is_a_constant_wherever_it_stands(text: str) -> None:
    plain = text.replace("${", "$ {").encode("utf-8", "replace").decode()
    try:
        made = compile_workflow("flow", flow(plain), "flow.yaml")
    except SettingsError:
        return
    assert blanked(made.source) == blanked(compile_workflow("flow", flow("x"), "flow.yaml").source)


@given(texts)
@example("inputs.repo.__class__.__mro__")
@example("().__class__.__bases__[0].__subclasses__()")
@example("__import__('os').system('x')")
@example("open('x')")
@example("inputs.repo.__class__()")
@example("[x for x in (1).__class__.__base__.__subclasses__()]")
@example("steps.a['__class__']")
@example("str.format('{0.__class__}', 1)")
@example("(lambda: 1)()")
@example("f'{inputs.repo!r}'")
@example("inputs := 3")
def test_an_expression_names_nothing_but_what_the_workflow_has(text: str) -> None:
    scope = Scope(inputs=frozenset({"repo"}), steps=frozenset({"a"}), names={"x": "each_x"})
    try:
        found = expression(text, scope)
    except NotAnExpression:
        return
    for node in ast.walk(ast.parse(found, mode="eval").body):
        assert not isinstance(
            node, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield | ast.Starred | ast.FormattedValue
        )
        if isinstance(node, ast.Name):
            assert node.id.startswith(PREFIXES) or node.id in FUNCTIONS | {"caught"}
        if isinstance(node, ast.Attribute):
            assert node.attr in METHODS_OF_OURS


WORDS = [
    "os",
    "open",
    "exec",
    "str",
    "range",
    "flow",
    "error",
    "caught",
    "self",
    "inputs",
    "steps",
    "input_a",
    "attempt",
]
"""Names that a file may have, and which mean something in Python, in expressions, or in the program."""


def flow_of_names(
    given: str, step: str, server: str, tool: str, keyword: str, skill: str, item: str, local: str
) -> str:
    """A workflow with a name at each place that takes one."""
    body = [{"id": "c", "set": f"${{{item}}}"}]
    return json.dumps(
        {
            "inputs": {given: "text"},
            "steps": [
                {
                    "id": step,
                    "call": f"{server}.{tool}",
                    "with": {keyword: f"${{inputs.{given}}}"},
                    "retry": {"times": 2},
                },
                {"skill": skill, "with": {keyword: 1}, "on_error": [{"fail": "${error.message}"}]},
                {"each": "[1]", "as": item, "id": "b", "collect": f"${{{item}}}", "do": body},
                {"id": "d", "set": f"${{[{local} for {local} in steps.{step}]}}"},
            ],
            "result": f"${{steps.{step}.{keyword}}}",
        }
    )


EVERYWHERE_A = dict.fromkeys(("given", "step", "server", "tool", "keyword", "skill", "item", "local"), "a")


def is_workflow(text: str) -> bool:
    try:
        compile_workflow("flow", text, "flow.yaml")
    except SettingsError:
        return False
    return True


@st.composite
def flows_of_names(draw: st.DrawFn) -> str:
    """Up to one of the names is any text."""
    names = draw(st.lists(st.sampled_from(WORDS), min_size=8, max_size=8))
    if draw(st.booleans()):
        names[draw(st.integers(0, 7))] = draw(texts)
    return flow_of_names(*names)


WHOLE = flow("${inputs.repo} and ${len(inputs.repo)}")


@given(flows_of_names())
@example(flow_of_names(**{**EVERYWHERE_A, "server": "A"}))
@example(flow_of_names(**{**EVERYWHERE_A, "given": "__class__"}))
@example(flow_of_names(**{**EVERYWHERE_A, "server": "os as b\nimport os"}))
@example(flow_of_names(**{**EVERYWHERE_A, "skill": "a import b; import os #"}))
@example(flow_of_names(**{**EVERYWHERE_A, "item": "a in [1]: import os #"}))
def test_names_of_any_kind_are_refused_or_are_names_of_ours(text: str) -> None:
    if is_workflow(text):
        assert names_in(compile_workflow("flow", text, "flow.yaml").source) <= OWN | FUNCTIONS


def test_the_files_above_are_not_all_refused() -> None:
    assert is_workflow(WHOLE)
    assert is_workflow(find(flows_of_names(), is_workflow))
