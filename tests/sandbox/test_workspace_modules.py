"""Modules saved in /workspace, on every backend: importable by their names, after all others."""

from __future__ import annotations

import pytest

from .lab import Lab

pytestmark = pytest.mark.asyncio(loop_scope="session")

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
    outcome = await lab.run("import helpers\nhelpers.fail()")
    assert outcome.error is not None
    assert "/workspace/helpers.py" in outcome.error.traceback
    assert "raise ValueError('here')" in outcome.error.traceback
