"""Whatever a workflow's file holds, it is refused or becomes a program in which the file's texts are data only."""

from __future__ import annotations

import ast
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.domain.errors import SettingsError
from codemode_server.workflows.compiling import compile_workflow
from codemode_server.workflows.expressions import FUNCTIONS, METHODS, NotAnExpression, Scope, expression
from tests.fuzz.strategies import damaged, texts, values

PREFIXES = ("input_", "step_", "each_", "local_", "servers_", "skills_")
OWN = {"_checked", "_answered", "_error", "_sleep", "_run", "ToolError", "WorkflowStopped", "RuntimeError", "flow"}
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
    """Each name that the program uses or imports, unless it is made of a prefix."""
    module = ast.Module(body_of(source), [])
    inputs = {it.arg for it in ast.walk(module) if isinstance(it, ast.arg)}
    found = {it.id for it in ast.walk(module) if isinstance(it, ast.Name)} - inputs
    return {it for it in found if not it.startswith(PREFIXES)}


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


def test_the_file_that_is_filled_with_texts_is_a_workflow() -> None:
    """The control of the tests below."""
    made = compile_workflow("flow", flow("x"), "flow.yaml")
    assert "servers_github_create_issue(title='x', rows=['x'])" in made.source
    assert names_in(made.source) <= OWN | FUNCTIONS


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
    scope = Scope(inputs=frozenset({"repo"}), steps=frozenset({"a"}), items=frozenset({"x"}))
    try:
        found = expression(text, scope)
    except NotAnExpression:
        return
    for node in ast.walk(found):
        assert not isinstance(
            node, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield | ast.Starred | ast.FormattedValue
        )
        if isinstance(node, ast.Name):
            assert node.id.startswith(PREFIXES) or node.id in FUNCTIONS | {"caught"}
        if isinstance(node, ast.Attribute):
            assert node.attr in METHODS_OF_OURS


@given(st.dictionaries(st.one_of(st.sampled_from(["call", "with", "id", "set", "each", "as", "if"]), texts), values))
def test_names_of_any_kind_are_refused_or_are_names_of_ours(step: dict[str, Any]) -> None:
    text = json.dumps({"inputs": dict.fromkeys(step, "text"), "steps": [step]}, default=str)
    try:
        made = compile_workflow("flow", text, "flow.yaml")
    except SettingsError:
        return
    assert names_in(made.source) <= OWN | FUNCTIONS


@given(damaged(st.just(flow("${inputs.repo} and ${steps.a.title}").encode())))
def test_a_damaged_file_is_refused_or_is_a_workflow(data: bytes) -> None:
    try:
        made = compile_workflow("flow", data.decode("utf-8", "replace"), "flow.yaml")
    except SettingsError:
        return
    assert names_in(made.source) <= OWN | FUNCTIONS
