"""What programs save for later ones: skills, modules in /workspace, and checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.sandbox.guest.earlier_programs import MAX_BYTES
from tests.tables import tables

from .lab import Lab, Tools, cases

TABLES = tables(__file__)
pytestmark = pytest.mark.asyncio(loop_scope="session")
TEXT = "def triage(n: int) -> int:\n    return n + 1\n"


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
    error = await lab.failure("with open('/skills/triage.py', 'w') as f:\n    f.write('def')\n    1 / 0", tools)
    assert error.type == "ZeroDivisionError"
    assert tools.saved == {}


async def test_a_refusal_is_an_error_of_the_program(lab: Lab) -> None:
    tools = Tools()
    for code in (
        "with open('/skills/a.py', 'w') as f:\n    f.write('refused')",
        "f = open('/skills/a.py', 'w')\nf.write('refused')",
        "open('/skills/a.py', 'w').write('refused')",
    ):
        error = await lab.failure(code, tools)
        assert (error.type, error.message) == ("ValueError", "not saved: no room")


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


SAVE = "open('/workspace/helpers.py', 'w').write({!r})"


async def test_a_saved_module_is_imported_by_a_later_program(lab: Lab) -> None:
    await lab.run(
        SAVE.format("from servers.github import list_issues\n\ndef count(repo):\n    return len(list_issues(repo))\n")
    )
    assert await lab.value("import helpers\nhelpers.count('a')", session="another") == 2
    assert await lab.value("from helpers import count\ncount('a')") == 2


async def test_a_program_imports_the_module_that_it_has_just_written(lab: Lab) -> None:
    for number in (1, 2):
        assert await lab.value(f"{SAVE.format(f'number = {number}')}\nimport helpers\nhelpers.number") == number


@pytest.mark.portable
async def test_packages_have_their_submodules(lab: Lab) -> None:
    await lab.run(
        "import os\nos.makedirs('/workspace/tools/deep')\n"
        "open('/workspace/tools/__init__.py', 'w').write('from .inner import value')\n"
        "open('/workspace/tools/inner.py', 'w').write('value = 1')\n"
        "open('/workspace/tools/deep/__init__.py', 'w').write('')\n"
        "open('/workspace/tools/deep/far.py', 'w').write('value = 2')"
    )
    files = "sorted(os.listdir('/workspace/tools'))"
    code = f"import tools, tools.deep.far, os\n[tools.value, tools.deep.far.value, {files}]"
    assert await lab.value(code) == [1, 2, ["__init__.py", "deep", "inner.py"]], "no compiled files are left"


@pytest.mark.portable
async def test_the_standard_library_and_our_modules_come_first(lab: Lab) -> None:
    names = ("statistics", "codemode", "servers", "skills", "ssl")
    await lab.run(f"for name in {names}: open(f'/workspace/{{name}}.py', 'w').write('is_saved = True')")
    code = f"import importlib\n[hasattr(importlib.import_module(name), 'is_saved') for name in {names[:-1]}]"
    assert await lab.value(code) == [False, False, False, False]
    kind, _ = await lab.error("import ssl\nssl.is_saved")
    assert kind in ("ModuleNotFoundError", "AttributeError"), "as the sandbox has it or not"


@pytest.mark.portable
async def test_an_error_in_a_saved_module_shows_its_line(lab: Lab) -> None:
    await lab.run(SAVE.format("def fail():\n    raise ValueError('here')\n"))
    error = await lab.failure("import helpers\nhelpers.fail()")
    assert "/workspace/helpers.py" in error.traceback
    assert "raise ValueError('here')" in error.traceback


IMPORT = "from codemode import checkpoint\n"


async def test_a_program_of_a_later_session_loads_what_one_saved(lab: Lab) -> None:
    assert await lab.value(IMPORT + "checkpoint.load()") is None
    await lab.run(IMPORT + "checkpoint.save(step=3, context={'done': ['a', 'b'], 'rest': None})")
    point = await lab.value(IMPORT + "checkpoint.load()", session="another")
    assert point.pop("timestamp").endswith("Z")
    assert point == {"step": 3, "context": {"done": ["a", "b"], "rest": None}, "last_task": "x0"}
    text = await lab.value("open('/workspace/state/checkpoint.json').read()")
    assert list(json.loads(text)) == ["step", "last_task", "context", "timestamp"]


REFUSED = {
    "{'done': 3}": "TypeError: checkpoint.save(step, context): step says what is done; give this dict as context=",
    "step=1, context={'rows': [object()]}": "TypeError: checkpoint.save: context is no JSON: object has no form",
    "step=float('nan')": "TypeError: checkpoint.save: step is no JSON: nan has no form in JSON",
    f"step=1, context='a' * {MAX_BYTES}": "ValueError: checkpoint.save: step and context take",
    "step=1, context=nested": "TypeError: checkpoint.save: context is no JSON: nested more than 100 deep",
}


@pytest.mark.portable
@pytest.mark.parametrize("arguments", REFUSED)
async def test_what_json_does_not_have_or_is_too_large_is_refused_and_the_old_checkpoint_stays(
    lab: Lab, arguments: str
) -> None:
    await lab.run(IMPORT + "checkpoint.save(step='before')")
    code = f"nested = []\nfor n in range(150): nested = [nested]\ncheckpoint.save({arguments})"
    kind, message = await lab.error(IMPORT + code)
    assert f"{kind}: {message}".startswith(REFUSED[arguments])
    assert (await lab.value(IMPORT + "checkpoint.load()"))["step"] == "before"


@pytest.mark.portable
@pytest.mark.parametrize("content", ["", "[1]", "{", "{}", " " * (MAX_BYTES + 1)])
async def test_a_file_that_is_no_checkpoint_says_how_to_replace_it(lab: Lab, content: str) -> None:
    await lab.run(
        f"import os\nos.makedirs('/workspace/state')\nopen('/workspace/state/checkpoint.json', 'w').write({content!r})"
    )
    kind, message = await lab.error(IMPORT + "checkpoint.load()")
    assert (kind, "checkpoint.save(step=..., context=...) replaces it" in message) == ("ValueError", True)
    saved: Any = await lab.value(IMPORT + "checkpoint.save(step=1)\ncheckpoint.load()['step']")
    assert saved == 1
