"""A dry run sends only calls that read and gives the plan of all others; applying it sends what was planned, and asks a
person about what differs.

The product is in memory; its upstream writes each call that it receives to a file, which the tests look at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codemode_server.domain.approvals import Approval

from .product import PLAIN, UPSTREAMS, Answer, Product, configuration, for_all, opened

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
IMPORTS = (
    "import asyncio, json, math, os, random, time, uuid\nfrom servers.diary import *\nfrom servers.tracker import *\n"
)
TRACKER = (
    PLAIN
    + """
import json
from pathlib import Path
from typing import Any
server = Server("tracker")
path = Path(sys.argv[1])
NUMBER = {"type": "integer"}
ISSUE = {
    "type": "object",
    "properties": {
        "number": NUMBER, "title": {"type": "string"}, "state": {"enum": ["open", "closed"]},
        "created_at": {"type": "string", "format": "date-time"}, "url": {"type": "string", "format": "uri"},
        "labels": {"type": "array", "items": {"type": "string"}}, "score": {"type": "number"},
        "is_new": {"type": "boolean"}, "extra": {},
    },
    "required": ["number"],
}
def note(*what):
    with path.open("a") as file:
        file.write(json.dumps(what) + "\\n")
def count():
    return len(path.read_text().splitlines()) if path.exists() else 0
@server.tool(outputSchema=ISSUE)
def create_issue(title: str) -> Any:
    note("create", title)
    return {"number": 100 + count(), "title": title, "state": "closed", "created_at": "2026-01-01T00:00:00Z",
            "url": "http://x/1", "labels": ["a", "b", "c"], "score": 1.5, "is_new": False, "extra": {"id": 7}}
@server.tool()
def comment(issue: int, text: str) -> Any:
    note("comment", issue, text)
    return {"id": 5, "tags": ["x", "y"]}
@server.tool(annotations={"destructiveHint": True})
def forget() -> Any:
    note("forget")
@server.tool(annotations={"readOnlyHint": True})
def read_issue(issue: int) -> Any:
    note("read", issue)
    return {"number": issue, "title": "a real issue"}
server.run()
"""
)


class DryProduct(Product):
    """A product with the diary and the tracker."""

    def diary(self) -> list[str]:
        path = self.folder / "diary"
        return path.read_text().splitlines() if path.exists() else []

    def tracker(self) -> list[Any]:
        path = self.folder / "tracker"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def forget(self) -> None:
        for name in ("diary", "tracker"):
            (self.folder / name).unlink(missing_ok=True)

    async def dry(self, code: str) -> Answer:
        """A dry run."""
        self.forget()
        return await self.host.run(IMPORTS + code, dry_run=True)

    async def apply(self, planned: Answer) -> Answer:
        return await self.host.call("execute_code", apply=planned.content["execution_id"])

    async def apply_answering(self, planned: Answer, *answers: bool) -> tuple[Answer, list[Approval]]:
        return await self.answering(*answers, apply=planned.content["execution_id"])


@asynccontextmanager
async def product(folder: Path, **sections: Any) -> AsyncIterator[DryProduct]:
    script = folder / "tracker.py"
    script.write_text(TRACKER)
    servers = {
        "diary": {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(folder / "diary")]},
        "tracker": {"command": sys.executable, "args": [str(script), str(folder / "tracker")]},
    }
    path = configuration(folder, servers, **sections)
    async with opened(path) as (app, host):
        yield DryProduct(app, host)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DryProduct]:
    async with for_all(product(tmp_path_factory.mktemp("dry"))) as opened:
        yield opened


def planned(answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    return [(it["tool"], it["arguments"]) for it in answer.content["plan"]["calls"]]


async def test_a_dry_run_sends_readings_and_captures_writes_and_apply_sends_them(shared: DryProduct) -> None:
    code = "count()\n[write(text=f'a{n}') for n in range(3)]"
    dry = await shared.dry(code)
    assert shared.diary() == ["(count)"]
    assert planned(dry) == [("diary.write", {"text": f"a{n}"}) for n in range(3)]
    assert f'execute_code(apply="{dry.content["execution_id"]}")' in dry.text
    shared.forget()
    applied = await shared.apply(dry)
    assert applied.value == [2, 3, 4]
    assert shared.diary() == ["(count)", "a0", "a1", "a2"]
    assert await shared.unanswered() == []
    assert f"[note: 3 of 3 calls made as the plan of {dry.content['execution_id']} has them]" in applied.text


@pytest.mark.parametrize(
    ("code", "old"),
    [
        ("write(text='a')\ncount()", "call 2 (count) shows"),
        ("count()\nwrite(text='a')\ncount()\ncount()", "call 3 (count), call 4 (count) shows"),
        ("count()\nwrite(text='a')", ""),
        ("comment(issue=1, text='a')\ncount()", ""),
    ],
)
async def test_reads_after_a_held_back_call_of_their_server_are_named(shared: DryProduct, code: str, old: str) -> None:
    text = (await shared.dry(code)).text
    line = f"not foreseen: {old} the state before the held-back calls"
    assert (line in text) if old else ("before the held-back" not in text)


async def test_a_plan_marks_what_destroys(shared: DryProduct) -> None:
    dry = await shared.dry("write(text='a')\nforget()")
    assert [("[destroys]" in line) for line in dry.text.split("\n") if line.startswith("  call ")] == [False, True]
    assert [it.get("destroys", False) for it in dry.content["plan"]["calls"]] == [False, True]


async def test_the_declared_result_type_makes_the_placeholder_and_the_plan_names_what_derives_from_it(
    shared: DryProduct,
) -> None:
    code = """
issue = create_issue(title='bug')
comment(issue=issue['number'], text=f"see {issue['url']}")
comment(issue=1, text=json.dumps(issue['labels']))
comment(issue=issue['number'] + 1, text='next')
comment(issue=2, text='foreseen')
{k: type(v).__name__ for k, v in issue.items()}"""
    dry = await shared.dry(code)
    assert dry.value == {
        "number": "int",
        "title": "str",
        "state": "str",
        "created_at": "str",
        "url": "str",
        "labels": "list",
        "score": "float",
        "is_new": "bool",
        "extra": "Unknown",
    }
    derived = [it.get("from_calls", {}) for it in dry.content["plan"]["calls"]]
    assert derived == [{}, {"issue": [1], "text": [1]}, {"text": [1]}, {"issue": [1]}, {}]
    assert "issue from call 1" in dry.text
    assert shared.tracker() == []


async def test_a_result_of_unknown_type_can_be_indexed_and_used_as_text(shared: DryProduct) -> None:
    uses = ("found['id']['deeper'][0]", "json.dumps({'x': found})", "'see ' + found['id']")
    dry = await shared.dry("found = comment(issue=1, text='a')\n" + "\n".join(f"write(text=str({it}))" for it in uses))
    assert dry.content["status"] == "succeeded", dry.text
    _, *calls = dry.content["plan"]["calls"]
    assert [it["from_calls"] for it in calls] == [{"text": [1]}] * len(uses), dry.text


async def test_a_reading_of_something_that_does_not_exist_yet_is_not_sent(shared: DryProduct) -> None:
    dry = await shared.dry("read_issue(issue=3)\nissue = create_issue(title='bug')\nread_issue(issue=issue['number'])")
    assert shared.tracker() == [["read", 3]], "control: the other reading was sent"
    last = dry.content["plan"]["calls"][-1]
    assert (last["tool"], last["only_reads"], last["from_calls"]) == ("tracker.read_issue", True, {"issue": [2]})
    assert "reads; not sent" in dry.text


async def test_apply_asks_about_what_could_not_be_foreseen_and_shows_both(shared: DryProduct) -> None:
    dry = await shared.dry("issue = create_issue(title='bug')\ncomment(issue=issue['number'], text='hello')")
    applied, asked = await shared.apply_answering(dry, True)
    assert applied.content["status"] == "succeeded", applied.text
    assert shared.tracker() == [["create", "bug"], ["comment", 101, "hello"]]
    assert "could not foresee issue" in asked[0].question.reason
    assert asked[0].question.changes == ('- issue: "<number from call 1>"', "+ issue: 101")


async def test_a_write_with_other_arguments_is_asked_about_and_not_sent_if_refused(shared: DryProduct) -> None:
    """A file of the workspace has changed in between."""
    await shared.host.run("open('/workspace/text', 'w').write('before')")
    dry = await shared.dry("write(text=open('/workspace/text').read())\nwrite(text='same')")
    await shared.host.run("open('/workspace/text', 'w').write('after')")
    applied, asked = await shared.apply_answering(dry, False)
    assert "the user refused it" in applied.text
    assert "other arguments: text" in asked[0].question.reason
    assert asked[0].question.changes == ('- text: "before"', '+ text: "after"')
    assert shared.diary() == []


async def test_the_workspace_is_a_copy_that_is_thrown_away(shared: DryProduct) -> None:
    await shared.host.run(
        "import os\nopen('/workspace/kept', 'w').write('old')\nos.makedirs('/workspace/folder', exist_ok=True)"
    )
    dry = await shared.dry(
        "read = open('/workspace/kept').read()\nopen('/workspace/kept', 'w').write('new')\n"
        "open('/workspace/folder/made', 'w').write('x')\nos.remove('/workspace/kept')\n"
        "[read, os.listdir('/workspace/folder')]"
    )
    assert dry.value == ["old", ["made"]]
    after = await shared.host.run("import os\n[open('/workspace/kept').read(), os.listdir('/workspace/folder')]")
    assert after.value == ["old", []]


async def test_a_plan_is_applied_once(shared: DryProduct) -> None:
    dry = await shared.dry("write(text='a')")
    applied = await shared.apply(dry)
    again = await shared.apply(dry)
    assert again.result.is_error
    assert f"applied already, as {applied.content['execution_id']}" in again.text
    assert shared.diary() == ["a"]


async def test_an_applied_program_that_breaks_is_resumed_and_still_compared_with_its_plan(shared: DryProduct) -> None:
    code = """
write(text='a')
if os.path.exists('/workspace/broken'):
    raise RuntimeError
write(text='c' if os.path.exists('/workspace/other text') else 'b')
write(text=f'd {random.random()}')"""
    dry = await shared.dry(code)
    await shared.host.run("open('/workspace/broken', 'w').close(); open('/workspace/other text', 'w').close()")
    applied = await shared.apply(dry)
    assert applied.content["status"] == "failed"
    await shared.host.run("import os; os.remove('/workspace/broken')")
    resumed, (asked,) = await shared.answering(True, resume=applied.content["execution_id"])
    assert asked.question.changes == ('- text: "b"', '+ text: "c"')
    assert resumed.content["status"] == "succeeded", resumed.text
    assert shared.diary() == ["a", "c", planned(dry)[2][1]["text"]]


async def test_held_back_calls_whose_results_the_program_uses_are_named(shared: DryProduct) -> None:
    dry = await shared.dry("issue = create_issue(title='bug')\nif issue['state'] == 'open':\n    write(text='open')")
    assert dry.content["plan"]["unforeseen"] == [
        "calls that depend on the result of call 1 (create_issue), which was not sent: they may be missing here, or "
        "get other arguments",
        "line 5: the condition depends on a result that is unknown here, so the program may branch otherwise",
    ]
    dry = await shared.dry("create_issue(title='bug')\nif count() > 0:\n    write(text='known')")
    assert dry.content["plan"]["unforeseen"] == [], "control: no result is used"
    dry = await shared.dry("issue = create_issue(title='bug')\nprint(issue)\nissue['state']")
    assert dry.content["plan"]["unforeseen"] == [], "it is only shown"
    dry = await shared.dry("print([write(text='a') for _ in create_issue(title='bug')])")
    assert "call 1 (create_issue)" in dry.content["plan"]["unforeseen"][0]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("issues = [create_issue(title='a')]\nfor issue in issues:\n    new = issue['is_new']\n    1 if new else 2", 7),
        ("from servers.tracker import comment as say\ndef said():\n    return say(1, 'a')\nwhile said(): break", 7),
        ("made = await asyncio.gather(comment(1, 'a'))\n[it for it in range(3) if it in made]", 5),
        ("total = 0\ntotal += len(comment(1, 'a')['tags'])\nassert total", 6),
        ("known = read_issue(1)\ncomment(1, 'a')\nif known['title']: pass", None),
    ],
)
async def test_a_condition_that_depends_on_a_call_that_was_not_sent_is_named_by_its_line(
    shared: DryProduct, code: str, line: int | None
) -> None:
    """The placeholder of a boolean or an enum is a plain value, which the program may have compared."""
    unforeseen = (await shared.dry(code)).content["plan"]["unforeseen"]
    assert [it.partition(":")[0] for it in unforeseen if "condition" in it] == ([f"line {line}"] if line else [])


@pytest.mark.parametrize("action", ["resume", "apply"])
async def test_only_a_dry_run_is_applied_and_none_is_resumed(shared: DryProduct, action: str) -> None:
    """A dry run that is resumed would send what it captured."""
    dry = await shared.dry("write(text='a')\nraise RuntimeError")
    real = await shared.host.run(IMPORTS + "write(text='b')\nraise RuntimeError")
    name = (dry if action == "resume" else real).content["execution_id"]
    answer = await shared.host.call("execute_code", **{action: name})
    assert answer.result.is_error
    assert "dry run" in answer.text
    assert shared.diary() == ["b"]
