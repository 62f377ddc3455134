"""A settled execution as the model gets it: bounded, readable, and with nothing in it that only a machine would see.

Programs run in the product, through the real client; only the folding of many calls is rendered from reports.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from codemode_server.execution.executor import Execution
from codemode_server.front.rendering import render
from codemode_server.gateway.gateway import Caller, CallReport
from codemode_server.gateway.ledger import CallStatus, ExecutionStatus
from codemode_server.model import ExecutionId, IsolationLevel, Session
from codemode_server.redaction import MASK, Redactor
from codemode_server.sandbox.backend import Ending, Limits, Outcome
from codemode_server.settings import LimitSettings
from codemode_server.tokens import estimate_tokens
from tests.behaviour.product import Answer, configuration, in_memory, office

BUDGET = 200
SECRET = "ghp_0123456789abcdef"
FOOTER = re.compile(r"\[succeeded in \d+\.\d\d s · wasm(?: · calls: [^·]+)? · x[0-9a-f]{12}\]")
LEFT_OUT = re.compile(r"\[… ([\d,]+) lines left out, about [\d,]+ tokens …\]")
LIMITS = LimitSettings()


async def run(folder: Path, code: str, **sections: Any) -> Answer:
    servers = office(folder, "github")
    servers["github"]["env"]["GITHUB_TOKEN"] = SECRET
    async with in_memory(configuration(folder, servers, **sections)) as host:
        return await host.run(code)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("{'open': 2, 'titles': ['a', 'ü']}", ['{"open": 2, "titles": ["a", "ü"]}']),
        ("'just text'", ["just text"]),
        ("print('printed')", ["printed"]),
        ("print('printed')\n7", ["7", "stdout:", "printed"]),
        ("import sys\nprint('noted', file=sys.stderr)\n7", ["7", "stderr:", "noted"]),
        ("x = 1", ["The program ended without a value or output; end it with an expression, or print."]),
    ],
)
async def test_the_text_is_the_value_then_what_was_printed_then_one_line_on_the_run(
    tmp_path: Path, code: str, lines: list[str]
) -> None:
    *told, footer = (await run(tmp_path, code)).text.split("\n")
    assert told == lines
    assert FOOTER.fullmatch(footer)


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ("'BEGIN\\n' + 'a line of words\\n' * 5_000 + 'END'", "value"),
        ("print('BEGIN', *range(5_000), 'END', sep='\\n')", "stdout"),
        ("import sys\nprint('BEGIN', *range(5_000), 'END', sep='\\n', file=sys.stderr)", "stderr"),
    ],
    ids=["text", "stdout", "stderr"],
)
async def test_of_long_text_the_first_and_last_lines_are_left_and_how_many_are_not_is_said(
    tmp_path: Path, code: str, field: str
) -> None:
    answer = await run(tmp_path, code, limits={"output_tokens": BUDGET})
    shown = answer.content[field].strip("\n").split("\n")
    assert (shown[0], shown[-1]) == ("BEGIN", "END")
    (left_out,) = [LEFT_OUT.fullmatch(line) for line in shown if line.startswith("[…")]
    assert left_out is not None
    assert int(left_out[1].replace(",", "")) + len(shown) - 1 == 5_002
    assert estimate_tokens(answer.text) < BUDGET + 150
    assert "\n".join(shown) in answer.text


async def test_a_long_value_is_cut_by_its_structure_and_the_result_names_the_whole(tmp_path: Path) -> None:
    code = "{'rows': [{'n': n, 'note': 'x ' * 9} for n in range(5_000)], 'long': 'word ' * 5_000, 'total': 5_000}"
    answer = await run(tmp_path, code, limits={"output_tokens": BUDGET})
    value = answer.value
    assert list(value) == ["rows", "long", "total"]
    *rows, more = value["rows"]
    assert rows == [{"n": n, "note": "x " * 9} for n in range(len(rows))]
    assert (more, len(rows) > 2) == (f"… {5_000 - len(rows):,} more items", True)
    assert value["long"].startswith("word word")
    assert value["long"].endswith("… (25,000 characters)")
    assert value["total"] == 5_000
    assert json.loads(answer.text.split("\n")[0]) == value
    assert "value_is_text" not in answer.content
    (cut,) = answer.content["cut"]
    name = answer.content["execution_id"]
    assert re.fullmatch(
        rf'the whole value \([\d,]+ tokens\) is kept: from codemode import results; results\["{name}"\]', cut
    )
    assert answer.text.split("\n")[1] == f"[cut: {cut}]"
    assert estimate_tokens(answer.text) < BUDGET + 150


async def test_value_and_output_share_one_budget(tmp_path: Path) -> None:
    answer = await run(tmp_path, "print('line\\n' * 5_000)\nlist(range(5_000))", limits={"output_tokens": 1_000})
    assert estimate_tokens(answer.text) < 1_200
    assert len(answer.value) > 100
    assert len(answer.content["stdout"]) > 500
    assert len(answer.content["cut"]) == 2


async def test_what_is_within_the_budget_is_whole_in_text_and_structure(tmp_path: Path) -> None:
    answer = await run(tmp_path, "list(range(40))", limits={"output_tokens": BUDGET})
    assert answer.content["value"] == list(range(40))
    assert json.loads(answer.text.split("\n")[0]) == list(range(40))


HOSTILE = "\x1b[31mred\x1b[0m\x07 \u202egnp.exe\u200b \ud800 \x9b31m \U000e0041"


async def test_no_escape_or_invisible_character_reaches_the_model(tmp_path: Path) -> None:
    answer = await run(
        tmp_path,
        f"import sys\nbad = {HOSTILE!r}\nprint(bad)\nsys.stderr.write(ascii(bad) and bad)\nraise ValueError(bad)",
    )
    for text in (answer.text, answer.content["stdout"], answer.content["stderr"], answer.error["message"]):
        assert [it for it in text if not it.isprintable() and it != "\n"] == []
        assert "red gnp.exe" in text


async def test_the_same_holds_for_the_value_as_text(tmp_path: Path) -> None:
    answer = await run(tmp_path, f"{HOSTILE!r}")
    # The lone surrogate became a `?` in the sandbox: it can't be sent.
    assert answer.value == "red gnp.exe ? 31m "
    assert answer.text.startswith("red gnp.exe ? 31m \n")


async def test_a_secret_of_the_configuration_is_masked_wherever_it_turns_up(tmp_path: Path) -> None:
    code = f"import sys\nprint('{SECRET}')\nprint('{SECRET}', file=sys.stderr)\n"
    async with in_memory(
        configuration(
            tmp_path,
            {"github": office(tmp_path, "github")["github"] | {"env": {"OFFICE_LOG": "x", "GITHUB_TOKEN": SECRET}}},
        )
    ) as host:
        good = await host.run(code + f"{{'k {SECRET}': ['{SECRET}']}}")
        bad = await host.run(code + f"raise ValueError('{SECRET}')")
    assert SECRET not in good.result.model_dump_json() + bad.result.model_dump_json()
    assert (good.value, good.content["stdout"], good.content["stderr"]) == (
        {f"k {MASK}": [MASK]},
        f"{MASK}\n",
        f"{MASK}\n",
    )
    assert bad.error["message"] == MASK


async def test_an_error_has_its_type_its_message_its_line_and_the_program_s_own_frames(tmp_path: Path) -> None:
    answer = await run(tmp_path, "def f(x):\n    return 1 / x\n\nprint('before')\nf(0)")
    assert {key: answer.error[key] for key in ("type", "message", "line")} == {
        "type": "ZeroDivisionError",
        "message": "division by zero",
        "line": 2,
    }
    *told, footer = answer.text.split("\n")
    assert told == [
        "line 5: f(0)",
        "line 2, in f: return 1 / x",
        "ZeroDivisionError: division by zero",
        "stdout:",
        "before",
    ]
    assert footer.startswith("[failed in ")


async def test_a_long_message_of_an_error_is_cut(tmp_path: Path) -> None:
    answer = await run(tmp_path, "raise ValueError('word ' * 100_000)")
    assert estimate_tokens(answer.text) < 2_500
    assert "tokens left out" in answer.error["message"]


async def test_a_failed_program_says_which_calls_have_happened_and_with_what(tmp_path: Path) -> None:
    answer = await run(
        tmp_path, "from servers.github import create_issue, boom\ncreate_issue(owner='a', repo='b', title='c')\nboom()"
    )
    assert answer.text.split("\n")[2:-1] == [
        "calls (what succeeded has happened; do not repeat its effects):",
        '- github.create_issue(owner="a", repo="b", title="c") succeeded: '
        '{number=1, url="https://github.example/a/b/issues/1"}',
        "- github.boom() failed",
    ]
    assert "kaboom" in answer.error["message"]
    assert [(call["tool"], call["status"]) for call in answer.content["calls"]] == [
        ("github.create_issue", "succeeded"),
        ("github.boom", "failed"),
    ]


def execution(reports: list[CallReport]) -> Execution:
    name = ExecutionId("x0123456789ab")
    made = Execution(name, "", Session("s"), Limits(), Caller(name, len(reports), reports))
    made.status, made.outcome = ExecutionStatus.SUCCEEDED, Outcome(Ending.RETURNED)
    made.level, made.milliseconds = IsolationLevel.WASM, 1_234.0
    return made


def report(seq: int, tool: str = "list_issues", status: CallStatus = CallStatus.SUCCEEDED) -> CallReport:
    return CallReport(seq, "github", tool, status, 10.4, error=None if status is CallStatus.SUCCEEDED else "it broke")


async def test_up_to_eight_calls_are_told_one_by_one_in_the_order_in_which_they_were_sent() -> None:
    made = render(execution([report(seq) for seq in (2, 1, 3, 8, 7, 6, 5, 4)]), LIMITS, Redactor())
    assert made.content["calls"] == [{"tool": "github.list_issues", "status": "succeeded", "ms": 10}] * 8


async def test_more_are_folded_by_tool_and_status() -> None:
    reports = [report(seq) for seq in range(1, 997)]
    reports += [report(seq, "boom", CallStatus.FAILED) for seq in (997, 998)]
    reports += [report(999, status=CallStatus.REFUSED), report(1_000, "create_issue")]
    made = render(execution(reports), LIMITS, Redactor())
    assert made.content["calls"] == [
        {"tool": "github.list_issues", "status": "succeeded", "ms": 10_358, "count": 996},
        {"tool": "github.boom", "status": "failed", "ms": 21, "count": 2, "error": "it broke"},
        {"tool": "github.list_issues", "status": "refused", "ms": 10, "count": 1, "error": "it broke"},
        {"tool": "github.create_issue", "status": "succeeded", "ms": 10, "count": 1},
    ]
    assert made.text.split("\n")[-1] == (
        "[succeeded in 1.23 s · wasm · calls: github.list_issues x996 10358 ms, github.boom x2 failed 21 ms, "
        "github.list_issues refused 10 ms, github.create_issue 10 ms · x0123456789ab]"
    )


async def test_what_is_doubtful_and_what_is_noted_stands_beside_the_result_a_line_each() -> None:
    made = execution([])
    made.warnings = ["line 2: 'titel' is no key\n\x1b[31mof it"]
    made.caller.notes = [f"the secret is {SECRET}", f"the secret is {SECRET}", *(f"note {n}" for n in range(20))]
    rendered = render(made, LIMITS, Redactor([SECRET]))
    text, content = rendered.text, rendered.content
    assert content["warnings"] == ["line 2: 'titel' is no key of it"]
    assert content["notes"] == [f"the secret is {MASK}", *(f"note {n}" for n in range(7)), "… 13 more"]
    assert text.split("\n")[1:3] == ["[warning: line 2: 'titel' is no key of it]", f"[note: the secret is {MASK}]"]
