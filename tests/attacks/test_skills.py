"""Threat: a program saves a skill that others run in good faith: under another's name, changed after a person has
looked, with code that runs on import, with text that talks to its readers, or to carry data past the flows.

Rule: nobody but the session that saved a text gets it before a person has seen that very text. Each attack has its
control beside it. Products, upstreams and sandboxes are real.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import pytest_asyncio

from codemode_server.app import App
from codemode_server.domain.ids import ExecutionId
from codemode_server.features.skills.rules import MAX_BYTES
from codemode_server.features.skills.store import MAX_PROPOSALS_OF_SESSION, SavedSkill
from tests.behaviour.product import configuration, for_all, office
from tests.behaviour.sessions import Person, product

from .kit import RAW
from .test_flows import flowing

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOOD = "def triage(n: int) -> int:\n    return n + 1\n"
USE = "from skills.triage import triage\ntriage(1)"


def writing(text: str, name: str = "triage") -> str:
    return f"with open('/skills/{name}.py', 'w') as file:\n    file.write({text!r})"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder = tmp_path_factory.mktemp("skills")
    (folder / "skills").mkdir()
    (folder / "skills" / "mine.py").write_text('"""By a person."""\ndef mine(): return "a person"\n')
    permissions = {"rules": [{"deny": "github/create_issue"}]}
    path = configuration(folder, office(folder, "google_drive", "github"), permissions=permissions)
    async with for_all(product(path)) as app:
        yield app


@pytest.fixture
def it(app: App) -> Person:
    return Person(app)


def accepted(person: Person, text: str = GOOD, name: str = "triage") -> SavedSkill:
    skill = SavedSkill(name, text, ExecutionId("x0"), "gone", time.time()).accepted(time.time())
    person.store.put_in_use(skill, shown=person.store.read_in_use(name))
    return skill


# Names ---------------------------------------------------------------------------------------------------------------


async def test_no_saved_skill_takes_the_place_of_a_persons(it: Person) -> None:
    for name in ("mine", "MINE", "Mine"):
        error = await it.error(writing("def mine():\n    return 'a program'\n", name))
        assert "is the user's own skill; save under another name" in error
    assert await it.value("from skills import mine\nmine()") == "a person"
    await it.value(writing(GOOD))  # the control
    assert await it.value(USE) == 2


async def test_a_name_that_is_no_plain_word_is_refused_by_the_host_whatever_the_guest_sends(it: Person) -> None:
    names = ["__init__", "class", "con", "a.b", "", "x" * 61, "tr\u0456age", "triage\0", "../triage", "triage"]
    send = f"""
answers = []
for number, name in enumerate({names!r}, 10**6):
    send(op='skill', id=number, name=name, text={GOOD!r})
    reply = receive()
    answers.append(reply['ok'] or reply['message'])
answers"""
    *refused, control = await it.value(RAW + send)
    assert all("name of a skill" in message for message in refused)
    assert control is True
    assert [saved.name for saved in it.store.proposals()] == ["triage"]


# Texts ---------------------------------------------------------------------------------------------------------------


async def test_a_text_that_can_not_be_reviewed_is_refused(it: Person) -> None:
    for text, problem in (
        ("def triage(n:\n", "is not valid Python"),
        ("LIMIT = 1\n", "it defines no function"),
        ("print(1)\n" + GOOD, "only imports, functions, classes and constants"),
        ("def triage(n):\n    return get_sheet(n)\n", "write: from servers.google_drive import get_sheet"),
        (GOOD + "# \u202e\n", "characters that nobody sees"),
        ("def triage(n):\n    \u0435val = n\n    return \u0435val\n", "is not plain ASCII"),
    ):
        assert problem in await it.error(writing(text))
    assert it.store.proposals() == []


async def test_a_skill_imports_nothing_that_programs_can_change_after_it_was_accepted(it: Person) -> None:
    write = "open('/workspace/helpers.py', 'w').write('def f(n): return n')\n"
    for text in (
        "import os, helpers.inner as os\ndef triage(n):\n    return os.f(n)\n",
        "def triage(n):\n    try:\n        import helpers as h\n    except OSError:\n        pass\n    return h.f(n)\n",
    ):
        assert "a skill can't import 'helpers'" in await it.error(write + writing(text))
    assert it.store.proposals() == []
    good = "import json, os.path\nfrom skills.mine import mine\nfrom codemode import search_tools\n"
    good += "from servers.google_drive import get_sheet\ndef triage(n):\n    import ssl\n    return n\n"
    await it.value(writing(good))  # the control


# Between saving and use ----------------------------------------------------------------------------------------------


async def test_a_skill_that_was_changed_after_it_was_accepted_is_not_imported(it: Person) -> None:
    accepted(it)
    assert await it.value(USE) == 2  # the control
    file = it.store.path / "triage.py"
    file.write_text(file.read_text().replace("n + 1", "n + 2"))
    assert "waits for the user's review: codemode-server skills show triage" in await it.error(USE)
    accepted(it, it.store.in_use()[0].text)
    assert await it.value(USE) == 3


async def test_what_is_accepted_is_what_was_shown_even_if_the_proposal_changes_meanwhile(it: Person) -> None:
    await it.value(writing(GOOD))
    (shown,) = it.store.proposals()
    await it.value(writing("def triage(n):\n    return 'evil'\n"))
    it.store.put_in_use(shown.accepted(time.time()), shown=None)
    assert await it.value(USE, "two") == 2
    assert ["evil" in proposal.text for proposal in it.store.proposals()] == [True]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
async def test_links_and_special_files_among_the_skills_are_not_read(it: Person, tmp_path: Path) -> None:
    accepted(it)
    (tmp_path / "secret.py").write_bytes((it.store.path / "triage.py").read_bytes())
    (it.store.path / "linked.py").symlink_to(tmp_path / "secret.py")
    os.mkfifo(it.store.path / "pipe.py")
    (it.store.path / "folder.py").mkdir()
    with anyio.fail_after(60):
        assert await it.value("import skills\nsorted(skills.__all__)") == ["mine", "triage"]
        assert "there is no skill 'linked'" in await it.error("import skills.linked")
        assert "there is no skill 'pipe'" in await it.error("import skills.pipe")


# Who -----------------------------------------------------------------------------------------------------------------


async def test_no_principal_sees_the_skills_of_another(app: App) -> None:
    one, other = Person(app), Person(app)
    accepted(one)
    await one.value(writing("def private_plan():\n    return 1\n", "private_plan"))
    assert await one.value(USE) == 2  # the control
    assert "there is no skill 'triage'" in await other.error(USE)
    assert await other.value("import skills\nskills.__all__") == ["mine"]
    search = "from codemode import search_tools\nstr(search_tools('private plan triage', server='skills'))"
    assert "private_plan" in await one.value(search)
    assert "private_plan" not in await other.value(search)
    assert app.skills is not None
    assert [skill.name for skill in app.skills.entries(other.owner())] == ["mine"]
    assert list(app.skills.waiting(one.owner("two"))) == ["private_plan"]
    assert app.skills.waiting(other.owner()) == {}


# Flows ---------------------------------------------------------------------------------------------------------------

READ = "from servers import bank, web\ndata = bank.read() + web.read()\n"
POST = "from servers.board import post\npost(text='ME ' + triage(1))"


@pytest.mark.parametrize("way", ["imported", "read by the model"])
async def test_a_skill_carries_what_its_session_had_read_until_a_person_has_accepted_it(
    tmp_path_factory: pytest.TempPathFactory, way: str
) -> None:
    path = flowing(tmp_path_factory.mktemp("flows"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "skills": {"review": "auto"}}))
    save = "with open('/skills/triage.py', 'w') as f:\n    f.write('def triage(n):\\n    return \"secret\"\\n')"
    async with product(path) as app:
        for is_tainted in (True, False):
            it = Person(app)
            await it.value((READ if is_tainted else "") + save)
            if way == "imported":
                await it.run("from skills.triage import triage", "two")
            else:
                assert app.skills is not None
                found = app.skills.source(it.owner("two"), "triage")
                await app.sources.take_over(it.context("two"), found.sources)
            assert await carried(it, "two") == ({"bank.read", "web.read"} if is_tainted else set())
            execution = await it.run(f"from skills.triage import triage\n{POST}", "two")
            assert (execution.outcome.error is not None) == is_tainted, execution.outcome
            skill = it.store.in_use()[0]
            it.store.put_in_use(skill.accepted(time.time()), shown=skill)
            await it.run("from skills.triage import triage", "three")
            assert await carried(it, "three") == set()


async def test_the_name_of_a_proposal_carries_nothing_that_its_session_had_read(tmp_path: Path) -> None:
    async with product(flowing(tmp_path)) as app:
        it = Person(app)
        await it.value(READ + writing(GOOD, "secret_is_42"))
        for guess in ("secret_is_42", "secret_is_43"):
            assert await it.error(f"import skills.{guess}", "two") == (
                f"not run:\nline 1: there is no skill {guess!r}; there are: announcing; skills that other sessions "
                "proposed wait for the user: codemode-server skills list"
            )


async def carried(person: Person, session: str) -> set[str]:
    """What a session has read itself, not by way of /workspace, where the logs of other sessions are as well."""
    found = await person.app.sources.of(person.context(session))
    return {source.title for source in found if not source.is_in_workspace and source.labels}


async def test_the_size_and_the_number_are_bounded(it: Person) -> None:
    most = GOOD + "#" * (MAX_BYTES - len(GOOD) - 1) + "\n"
    await it.value(writing(most))
    assert "at most 64 KiB" in await it.error(writing(most[:-1] + "#\n"))
    code = "\n".join(writing(f"def f{n}():\n    return {n}\n", f"f{n}") for n in range(MAX_PROPOSALS_OF_SESSION - 1))
    await it.value(code)
    assert len(it.store.proposals()) == MAX_PROPOSALS_OF_SESSION
    assert "has proposed 20 skills" in await it.error(writing(GOOD, "more"))
    await it.value(writing(GOOD))  # the control: over one that is there
    assert len(it.store.proposals()) == MAX_PROPOSALS_OF_SESSION
