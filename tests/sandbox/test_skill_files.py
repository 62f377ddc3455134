"""Saving skills from a program, and the files of /skills, on every backend."""

from __future__ import annotations

import pytest

from tests.tables import tables

from .lab import Lab, Tools, cases

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)

DEFINE = "from codemode import skills\ndef triage(n: int) -> int:\n    return n + 1\n"
TEXT = "def triage(n: int) -> int:\n    return n + 1\n"


async def test_a_function_is_saved_and_imported_by_the_same_program(lab: Lab) -> None:
    tools = Tools()
    outcome = await lab.run(
        f"{DEFINE}said = await skills.save(triage)\nfrom skills.triage import triage as again\n(said, again(1))", tools
    )
    assert (outcome.value, outcome.error) == (["skills.triage saved", 2], None)
    assert tools.saved == {"triage": TEXT}


@pytest.mark.parametrize("code", cases(TABLES["written"], "open('/skills/triage.py', 'wb').write(TEXT.encode())"))
async def test_a_file_is_saved_when_it_is_closed(lab: Lab, code: str) -> None:
    tools = Tools()
    outcome = await lab.run(f"TEXT = {TEXT!r}\n{code}", tools)
    assert outcome.error is None
    assert tools.saved == {"triage": TEXT}


@pytest.mark.portable
async def test_a_file_is_read_as_an_import_would_run_it(lab: Lab) -> None:
    tools = Tools()
    tools.saved["triage"] = TEXT
    outcome = await lab.run(
        "[open('/skills/triage.py').read(), open('/skills/triage.py', 'rb').read().decode()]", tools
    )
    assert outcome.value == [TEXT, TEXT]
    missing = await lab.run("open('/skills/nothing.py')", tools)
    assert missing.error is not None
    assert missing.error.type == "FileNotFoundError"


@pytest.mark.portable
async def test_half_of_a_file_is_not_saved(lab: Lab) -> None:
    tools = Tools()
    outcome = await lab.run("with open('/skills/triage.py', 'w') as f:\n    f.write('def')\n    1 / 0", tools)
    assert outcome.error is not None
    assert outcome.error.type == "ZeroDivisionError"
    assert tools.saved == {}


async def test_a_refusal_is_an_error_of_the_program(lab: Lab) -> None:
    tools = Tools()
    for code in (
        "with open('/skills/a.py', 'w') as f:\n    f.write('refused')",
        "f = open('/skills/a.py', 'w')\nf.write('refused')",
        "from codemode import skills\ndef refused(): ...\nskills.save(refused)",
    ):
        outcome = await lab.run(code, tools)
        assert outcome.error is not None
        assert (outcome.error.type, outcome.error.message) == ("ValueError", "not saved: no room")


@pytest.mark.portable
async def test_a_skill_that_is_saved_anew_is_imported_anew(lab: Lab) -> None:
    tools = Tools()
    tools.saved["triage"] = TEXT
    write = "with open('/skills/triage.py', 'w') as f:\n    f.write('def triage(n):\\n    return 7\\n')\n"
    use = "from skills.triage import triage\n"
    outcome = await lab.run(f"{use}before = triage(1)\n{write}{use}(before, triage(1))", tools)
    assert outcome.value == [2, 7]


@pytest.mark.portable
async def test_async_code_of_a_skill_gets_the_awaits_that_a_program_gets(lab: Lab) -> None:
    tools = Tools()
    tools.saved["triage"] = (
        "from servers.google_drive import get_sheet\nasync def triage(n):\n    rows = get_sheet(sheetId='a')\n"
        "    return len(rows)\n"
    )
    assert (await lab.run("from skills.triage import triage\nawait triage(1)", tools)).value == 3
