"""Skills that programs save: what a session, a later session and a person get of them, on a whole product with real
upstreams and sandboxes. The examples of the documents that the product comes from run unchanged."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio

from codemode_server.app import App
from codemode_server.domain.skills import SkillState

from .product import configuration, for_all, in_memory, office
from .sessions import Person, product

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SKILL_BUILDING = '''
from servers.google_drive import get_sheet

# Agents can save reusable functions
# ./skills/check_pending_orders.py
async def check_pending_orders(sheet_id: str) -> int:
    """Reusable skill created by agent"""
    all_rows = await get_sheet({'sheetId': sheet_id})
    pending = [r for r in all_rows if r["Status"] == "pending"]
    return len(pending)

import inspect
with open('/skills/check_pending_orders.py', 'w') as f:
    f.write('from servers.google_drive import get_sheet\\n\\n' + inspect.getsource(check_pending_orders))
'''
"""The second document, "4. Skill Building", with the import and the last three lines added."""

USE = "from skills.check_pending_orders import check_pending_orders\nawait check_pending_orders('abc123')"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder = tmp_path_factory.mktemp("skills")
    (folder / "skills").mkdir()
    (folder / "skills" / "mine.py").write_text('"""By a person."""\ndef mine(): return "a person\'s"\n')
    async with for_all(product(configuration(folder, office(folder, "google_drive", "slack")))) as app:
        yield app


def saving(name: str, text: str) -> str:
    """A program that saves a skill."""
    return f"with open('/skills/{name}.py', 'w') as f:\n    f.write({text!r})\n"


def accept(person: Person, name: str) -> None:
    """What `codemode-server skills accept` does once the person has said yes."""
    (found,) = [it for it in person.store.proposals() if it.name == name]
    person.store.put_in_use(found.accepted(time.time()), shown=person.store.read_in_use(name))


async def test_a_saved_skill_is_imported_by_its_session_at_once_and_by_others_once_it_is_accepted(
    app: App,
) -> None:
    it = Person(app)
    saved = await it.run(SKILL_BUILDING)
    assert saved.status.value == "succeeded", saved.outcome.error
    (line,) = saved.calls.messages
    assert line == (
        "skills.check_pending_orders is proposed: this session can import it (from skills.check_pending_orders import "
        "check_pending_orders), others once the user accepts it (codemode-server skills accept check_pending_orders)"
    )
    assert await it.value(USE) == 2500
    waits = "is proposed and waits for the user: codemode-server skills accept check_pending_orders"
    assert app.skills is not None
    assert app.skills.waiting(it.owner("two")) == {"check_pending_orders": waits}
    assert f"skill 'check_pending_orders' {waits}" in await it.error(USE, "two")
    accept(it, "check_pending_orders")
    assert await it.value(USE, "two") == 2500


async def test_the_library_of_common_operations_of_the_fourth_document(app: App) -> None:
    """Its "Example 6: Skills & Reusable Code": saving, importing and using skills, and building a library of them."""
    it = Person(app)
    mean = "import statistics\ndef mean(rows: list[float]) -> float:\n    return statistics.mean(rows)\n"
    spread = "def spread(rows: list[float]) -> float:\n    return max(rows) - min(rows)\n"
    report = (
        "from skills.mean import mean\nfrom skills.spread import spread\n"
        "def report(rows):\n    return mean(rows), spread(rows)\n"
    )
    await it.value(saving("mean", mean) + saving("spread", spread))
    await it.value(saving("report", report))
    for name in ("mean", "spread", "report"):
        accept(it, name)
    assert await it.value("from skills import report\nreport([1, 2, 6])", "two") == [3, 5]


async def test_what_is_known_of_a_saved_skill_is_listed_shown_and_found(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("front")
    async with in_memory(configuration(folder, office(folder, "google_drive"))) as host:
        saved = await host.run(SKILL_BUILDING)
        execution = saved.content["execution_id"]
        listed = (await host.call("list_dir", path="/skills")).text
        read = (await host.call("read_tool", path="/skills/check_pending_orders.py")).text
        found = (await host.call("search_tools", query="reusable skill pending orders")).text
    assert "[note: skills.check_pending_orders is proposed: this session can import it" in saved.text
    about = (
        "Reusable skill created by agent · calls google_drive.get_sheet [proposed: only this session can import it "
        "until the user accepts it]"
    )
    assert listed.splitlines()[1] == f"check_pending_orders.py  {about}"
    assert read.splitlines()[0] == (
        f"# /skills/check_pending_orders.py · saved by {execution} · calls google_drive.get_sheet · proposed: only "
        "this session can import it until the user accepts it"
    )
    assert found.splitlines()[:3] == [
        "from skills.check_pending_orders import check_pending_orders",
        "  check_pending_orders(sheet_id: str) -> int",
        f"    {about}",
    ]


async def test_what_a_program_saved_that_did_not_succeed_is_not_kept(app: App) -> None:
    it = Person(app)
    failed = await it.run(f"{SKILL_BUILDING}\n1 / 0")
    assert "not saved, since the program did not succeed: check_pending_orders" in failed.calls.messages
    assert it.store.proposals() == []
    kept = await it.run(SKILL_BUILDING)  # the control
    assert kept.status.value == "succeeded"
    assert len(it.store.proposals()) == 1
    await it.run(f"{SKILL_BUILDING.replace('Reusable', 'Another')}\n1 / 0")
    assert ["Reusable" in saved.text for saved in it.store.proposals()] == [True]  # the good one stays


async def test_a_new_version_is_for_its_session_alone_until_it_is_accepted(
    app: App,
) -> None:
    it = Person(app)
    await it.value(saving("n", "def n():\n    return 1\n"))
    accept(it, "n")
    line = (await it.run(saving("n", "def n():\n    return 2\n"), "two")).calls.messages[0]
    assert line.startswith("skills.n is a new version of the accepted skill, proposed: this session can import it")
    use = "from skills.n import n\nn()"
    assert [await it.value(use), await it.value(use, "two")] == [1, 2]
    accept(it, "n")
    assert await it.value(use) == 2


async def test_without_review_a_skill_is_in_use_once_its_program_has_succeeded(
    app: App, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("auto")
    async with product(configuration(folder, office(folder, "google_drive"), skills={"review": "auto"})) as auto:
        it = Person(auto)
        await it.run(f"{SKILL_BUILDING}\n1 / 0")
        assert "there is no skill" in await it.error(USE, "two")
        saved = await it.run(SKILL_BUILDING)
        assert saved.calls.messages[0].startswith("skills.check_pending_orders is saved once this program succeeds")
        assert await it.value(USE, "two") == 2500
        assert auto.skills is not None
        (skill,) = auto.skills.entries(it.owner("two"))
        assert skill.state is SkillState.UNREVIEWED
        accepted = it.store.in_use()[0].accepted(time.time())
        it.store.put_in_use(accepted, shown=accepted)
        await it.run(SKILL_BUILDING.replace("Reusable", "Another"), "two")
        assert [old.text for old in it.store.in_use()] == [accepted.text]  # what a person accepted stays
        assert len(it.store.proposals()) == 1


async def test_an_approval_shows_the_line_of_the_skill_that_makes_the_call(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("approval")
    rules = {"rules": [{"ask": "google_drive/get_sheet"}]}
    async with product(configuration(folder, office(folder, "google_drive"), permissions=rules)) as asking:
        it = Person(asking)
        execution = it.start(f"{SKILL_BUILDING}\n{USE}")
        with anyio.fail_after(60):
            while not (waiting := await asking.stores.approvals.unanswered(it.principal)):
                await anyio.sleep(0.02)
        await asking.executions.cancel(execution.execution_id)
    (question,) = [found.question for found in waiting]
    assert question.lines[-1] == ("skills/check_pending_orders.py 5: all_rows = await get_sheet({'sheetId': sheet_id})")
    assert question.lines[0].startswith("8: all_rows")
