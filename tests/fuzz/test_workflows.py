"""Whatever a workflow's file holds, it is refused or becomes a program in which the file's texts are data only."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from hypothesis import example, given

from codemode_server.domain.errors import SettingsError
from codemode_server.features.workflows.compiling import compile_workflow
from codemode_server.features.workflows.expressions import FUNCTIONS, METHODS, NotAnExpression, Scope, expression
from tests.fuzz.strategies import texts

PREFIXES = ("input_", "step_", "each_", "local_", "servers_", "skills_")
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


def flow_of_names(given: str = "a", step: str = "a", target: str = "a.a", skill: str = "a", item: str = "a") -> str:
    """A workflow with a name at each place that takes one."""
    return json.dumps(
        {
            "inputs": {given: "text"},
            "steps": [
                {"id": step, "call": target, "with": {"a": 1}, "retry": {"times": 2}},
                {"skill": skill, "with": {"a": 1}, "on_error": [{"fail": "${error.message}"}]},
                {"each": "[1]", "as": item, "id": "b", "collect": "1", "do": []},
            ],
        }
    )


def is_workflow(text: str) -> bool:
    try:
        compile_workflow("flow", text, "flow.yaml")
    except SettingsError:
        return False
    return True


@given(name=texts)
@example(name="__class__")
@example(name="os as b\nimport os")
@example(name="a.a; import os #")
@example(name="a in [1]: import os #")
@example(name="import")
def test_a_name_is_refused_or_is_a_plain_word_that_gets_a_prefix(name: str) -> None:
    for place in ("given", "step", "target", "skill", "item"):
        text = flow_of_names(**{place: name})
        if is_workflow(text) and name:
            assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*([./][A-Za-z_][A-Za-z0-9_]*)?", name)
            names = {name for name in _identifiers(text) if not name.startswith(PREFIXES)}
            assert names <= _identifiers(flow_of_names())


def _identifiers(text: str) -> set[str]:
    """The names that the steps use."""
    steps = [
        it for it in body_of(compile_workflow("flow", text, "flow.yaml").source) if getattr(it, "name", "") != "flow"
    ]
    return {node.id for it in steps for node in ast.walk(it) if isinstance(node, ast.Name)}


def test_the_files_above_are_not_all_refused() -> None:
    assert is_workflow(flow("${inputs.repo} and ${len(inputs.repo)}"))
    assert is_workflow(flow_of_names())
