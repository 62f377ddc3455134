"""What a workflow's file may hold, and what it says of mistakes: all of them at once, with line and nearest name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from codemode_server.domain.errors import SettingsError
from codemode_server.features.workflows.compiling import Workflows, compile_workflow

STEP = "steps:\n  - id: a\n    call: crm.find\n"


def source(text: str) -> str:
    """The body of the program, without its prelude."""
    made = compile_workflow("flow", text, "flow.yaml").source
    return made[made.index("def _run(") : made.index("def flow(")].strip()


def problems(text: str, name: str = "flow") -> list[str]:
    with pytest.raises(SettingsError) as error:
        compile_workflow(name, text, "flow.yaml")
    return str(error.value).splitlines()


class TestValues:
    @pytest.mark.parametrize(
        ("written", "compiled"),
        [
            ('"${inputs.n}"', "input_n"),
            ('"no. ${inputs.n + 1}!"', "''.join(['no. ', str(input_n + 1), '!'])"),
            ('"$${inputs.n} ${1}"', "''.join(['${inputs.n} ', str(1)])"),
            ("\"${ {'a': {1: '}'}}.a }\"", "{'a': {1: '}'}}['a']"),
            ("[1, true, null, '${inputs.n}']", "[1, True, None, input_n]"),
            ("{a-b: 1.5, c: no}", "{'a-b': 1.5, 'c': False}"),
            ('"${steps.a.items.keys()}"', "step_a['items'].keys()"),
            ('"${[x.id for x in steps.a if x.id > 1]}"', "[local_x['id'] for local_x in step_a if local_x['id'] > 1]"),
        ],
    )
    def test_are_constants_and_expressions(self, written: str, compiled: str) -> None:
        text = f"inputs: {{n: integer}}\n{STEP}  - id: b\n    set: {written}\n"
        assert source(text).splitlines()[-1].strip() == f"step_b = {compiled}"

    def test_a_name_that_no_keyword_can_have_goes_into_a_dict(self) -> None:
        assert "servers_crm_find({'a-b': 1, 'c': 2})" in source(f"{STEP}    with: {{a-b: 1, c: 2}}\n")
        assert "servers_crm_find(b=1)" in source(f"{STEP}    with: {{b: 1}}\n"), "control"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stps: []", "flow.yaml:1: stps: unknown key; did you mean 'steps'?"),
        ("description: x", "flow.yaml:1: needs `steps`"),
        (f"{STEP}    wiht: {{}}\n", "flow.yaml:4: steps[0].wiht: unknown key; did you mean 'with'?"),
        (f"{STEP}    set: 1\n", "exactly one of"),
        ("steps:\n  - call: crm\n", "flow.yaml:2: steps[0].call: must be `server.tool`"),
        ("steps:\n  - call: crm.import\n", "must be `server.tool`"),
        ("steps:\n  - skill: ../triage\n", "must be the name of a skill"),
        (f"{STEP}  - id: a\n    set: 1\n", "flow.yaml:4: steps[1].id: there is a step 'a' already"),
        ("steps:\n  - id: class\n    set: 1\n", "an id is up to 40 small letters"),
        ("steps:\n  - set: 1\n", "needs an `id`"),
        (f"{STEP}result: ${{steps.b}}\n", "flow.yaml:4: result: there is no step before this one 'b'; there are a"),
        (f"inputs: {{email: text}}\n{STEP}result: ${{inputs.emial}}\n", "no input 'emial'; did you mean 'email'?"),
        (
            f"inputs: {{email: text}}\n{STEP}result: ${{email}}\n",
            "there is no `email` here; did you mean `inputs.email`?",
        ),
        (f"{STEP}result: ${{open('x')}}\n", "there is no function `open`"),
        (f"{STEP}result: ${{2 ** 9}}\n", "has what expressions of workflows do not have: `2 ** 9`"),
        (f"{STEP}result: ${{1 +}}\n", "is not an expression"),
        (f"{STEP}result: ${{1\n", "has a `${` without its `}`"),
        ("inputs: {email: {type: txt}}\n" + STEP, "must be one of text, number, integer, boolean, list, object"),
        ("inputs: {email: {pattern: '('}}\n" + STEP, "is no regular expression"),
        ("inputs: {email: }\n" + STEP, "must be a mapping; write `key: value` lines"),
        ("steps:\n  - each: '[1]'\n    id: a\n    do: []\n", "`id` and `collect` belong together"),
        ("steps:\n  - id: a\n    ask: x\n", "needs `fields`"),
        (f"{STEP}    retry: {{times: 100}}\n", "must be a number from 1 to 20"),
        (f"{STEP}    retry: {{on: [refused]}}\n", "'refused' is none of unavailable, timed_out, tool_failed"),
        (f"{STEP}    on_error: ignore\n", "must be `stop`, `continue`, or a list of steps"),
        (f"{STEP}result: .nan\n", "must be a finite number"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_the_nearest_name(text: str, problem: str) -> None:
    assert any(problem in line for line in problems(text)), problems(text)


def test_all_mistakes_are_reported_at_once() -> None:
    found = problems(f"{STEP}    wiht: {{}}\n  - cal: x.y\nresult: ${{steps.b}}\n")
    assert [line.split(":")[1] for line in found] == ["4", "5", "6"]


@pytest.mark.parametrize("name", ["print", "class", "Flow", "a-b", "_a"])
def test_a_workflow_is_named_like_a_function_that_python_does_not_have(name: str) -> None:
    assert "the name of a workflow's file" in problems(STEP, name)[0]


class TestLargeFiles:
    def test_deep_nesting_is_refused(self) -> None:
        def nested(depth: int) -> str:
            text = "steps:\n"
            for level in range(depth):
                text += f"{'  ' * 2 * level}  - each: '[1]'\n{'  ' * 2 * level}    do:\n"
            return text + f"{'  ' * 2 * depth}  - fail: x\n"

        assert "nested" in problems(nested(20))[0]
        assert "for each_item in [1]" in source(nested(3)), "control"

    @pytest.mark.parametrize(("before", "after", "deep"), [("-", "", 900), ("[", "]", 150), ("not ", "", 400)])
    def test_a_deep_expression_is_refused(self, before: str, after: str, deep: int) -> None:
        def nested(depth: int) -> str:
            return f"{before * depth}1{after * depth}"

        for depth in (40, deep):
            found = problems(f"{STEP}result: ${{{nested(depth)}}}\n")
            assert found == ["flow.yaml:4: result: is nested more than 40 deep"], depth
        (returned,) = re.findall("return (.*)", source(f"{STEP}result: ${{{nested(39)}}}\n"))
        assert ast.dump(ast.parse(returned)) == ast.dump(ast.parse(nested(39))), "control"

    def test_many_steps_are_refused(self) -> None:
        assert "more than 500 steps" in problems("steps:\n" + "  - fail: x\n" * 501)[0]
        assert source("steps:\n" + "  - fail: x\n" * 500), "control"


class TestTheFolder:
    def test_has_every_workflow_and_an_edit_is_seen(self, tmp_path: Path) -> None:
        workflows = Workflows(tmp_path)
        assert workflows.names() == []
        (tmp_path / "flow.yaml").write_text(f"description: one\n{STEP}")
        (tmp_path / "notes.txt").write_text("")
        (tmp_path / "bad.yml").write_text("steps: 3")
        assert [(it.name, it.summary) for it in workflows.entries()] == [
            ("bad", "(has mistakes; the user has to mend it)"),
            ("flow", "one"),
        ]
        (tmp_path / "flow.yaml").write_text(f"description: another\n{STEP}")
        assert workflows.compiled("flow").description == "another"

    def test_a_link_leads_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "there.yaml").write_text(STEP)
        (tmp_path / "workflows").mkdir()
        (tmp_path / "workflows" / "link.yaml").symlink_to(tmp_path / "there.yaml")
        assert Workflows(tmp_path / "workflows").names() == []
        assert Workflows(tmp_path).names() == ["there"], "control"


def test_the_example_of_the_documentation_is_a_workflow() -> None:
    page = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
    (example,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "steps:" in block]
    made = compile_workflow("onboarding", example, "onboarding.yaml")
    assert made.signature == "onboarding(account: str)"
    assert made.modules == ("servers.person", "servers.crm", "servers.billing")


def test_a_workflow_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('{"steps": [{"id": "a", "call": "crm.find"}], "result": "${steps.a}"}')
    assert "return step_a" in Workflows(tmp_path).compiled("flow").source
