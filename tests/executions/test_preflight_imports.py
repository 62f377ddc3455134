"""Imports that can't succeed are found before the first call; what may succeed, or is handled, runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.executions.preflight.preflight import CheckContext
from codemode_server.sandbox.importable import IN_WASM
from codemode_server.sandbox.packages.installed import NO_PACKAGES, Package, Packages

from .kit import OFFICE, checked, lines, preflight, with_skills

HEAD = "from servers.github import boom, create_issue\ncreate_issue('a', 'b')\n"


async def found(
    code: str,
    importable: frozenset[str] | None = IN_WASM,
    saved: frozenset[str] = frozenset(),
    packages: Packages = NO_PACKAGES,
) -> tuple[list[str], list[str]]:
    context = CheckContext(importable, may_be_in_workspace=saved.__contains__, packages=packages)
    async with preflight(OFFICE) as check:
        result = await check.check(HEAD + code, context)
    return lines(result.errors), lines(result.warnings)


FAILING = {
    "import pandas as pd": "3: no module named 'pandas': only the standard library is available; write rows",
    "from numpy.linalg import norm": "3: no module named 'numpy.linalg': only the standard library is available",
    "import json, requests": "3: no module named 'requests': programs have no network; call a tool instead",
    "import helpers": "3: no module named 'helpers': only the standard library is available; search_tools finds "
    "tools; a module saved as /workspace/helpers.py could be imported",
    "import lzma": "3: no module named 'lzma'",
    "import jsno": "3: no module named 'jsno': did you mean 'json'? only the standard library is available",
    "from server.git import x": "3: no module named 'server.git': did you mean 'servers.git'?",
    "from codemode import result": "3: no 'result' in codemode; did you mean 'results'?",
    "import servers.gitlab": '3: no server "gitlab"',
    "def main():\n    import pandas\nmain()": "4: no module named 'pandas'",
    "import asyncio\nasync def main():\n    import pandas\nasyncio.run(main())": "5: no module named 'pandas'",
    "import sys, os.path\nprint(sys.argv, os.path.sep)\nimport pandas": "5: no module named 'pandas'",
}


@pytest.mark.parametrize("code", FAILING)
async def test_an_import_that_fails_for_certain_stops_the_program(code: str) -> None:
    errors, warnings = await found(code)
    assert len(errors) == 1
    assert errors[0].startswith(FAILING[code])
    assert warnings == []


TO_ADD = "only the standard library is available; {}the user can add {} to sandbox.packages in upstream.yaml{}"
PACKAGES = {
    "bs4": TO_ADD.format("use html.parser, or ", "beautifulsoup4", ""),
    "openpyxl.styles": TO_ADD.format("", "openpyxl", ""),
    "PIL": TO_ADD.format("", "pillow", ", which needs a microVM"),
    "requests": "programs have no network; call a tool instead (search_tools finds it): from servers.<server> import "
    "<tool>",
}


@pytest.mark.parametrize("module", PACKAGES)
async def test_a_package_that_is_not_listed_is_named_as_the_person_can_add_it(module: str) -> None:
    errors, _ = await found(f"import {module}")
    assert errors == [f"3: no module named {module!r}: {PACKAGES[module]}"]


EXCEL = Package("openpyxl", "3.1", ("openpyxl",), 1_000)
NUMPY = Package("numpy", "2.3", ("numpy",), 1_000, wasm_obstacle="it has native code, which the WASM sandbox can't run")


async def test_a_listed_package_is_imported_and_one_that_wasm_cant_run_is_refused_with_the_reason() -> None:
    packages = Packages(Path("/nowhere"), (EXCEL, NUMPY))
    importable = IN_WASM | packages.modules(in_wasm=True)
    assert await found("import openpyxl.styles", importable, packages=packages) == ([], [])
    assert (await found("import numpy as np", importable, packages=packages))[0] == [
        "3: no module named 'numpy': numpy can't be imported without a microVM: it has native code, which the "
        "WASM sandbox can't run; "
        "write [f(x) for x in values], and use math, statistics (mean, stdev, linear_regression) and random"
    ]
    soup = Packages(Path("/nowhere"), (Package("beautifulsoup4", "4", ("_bs4", "bs4"), 1_000),))
    assert (await found("import beautifulsoup4", packages=soup))[0] == [
        "3: no module named 'beautifulsoup4': write: import bs4"
    ]
    assert (await found("import yaml", importable, packages=packages))[0][0].startswith(
        "3: no module named 'yaml': only the standard library and openpyxl are available; there is no YAML"
    )


async def test_packages_that_could_not_be_installed_are_named_with_the_reason() -> None:
    packages = Packages(problem="opnpyxl is not in the package index", remedy="correct its name")
    assert (await found("import openpyxl", packages=packages))[0] == [
        "3: no module named 'openpyxl': the user's packages are not installed: opnpyxl is not in the package index "
        "(for the user: correct its name); search_tools finds tools"
    ]
    assert "not installed" not in (await found("import lzma", packages=packages))[0][0], "it is no package"


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    import pandas\nexcept ImportError:\n    pandas = None",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import pandas",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas",
        "import sys\nsys.path.insert(0, '/workspace')\nimport helpers",
        "import sys, types\nsys.modules['helpers'] = types.ModuleType('helpers')\nimport helpers",
        "from skills import triage\nimport helpers",
        "import tzdata, zoneinfo, sqlite3, tomllib, xml.etree.ElementTree as ET, concurrent.futures, annotationlib",
        "from codemode import *\nfrom codemode import show, results, File, ToolError, call, search_tools",
        "from client import call_mcp_tool\nfrom tool_discovery import search_tools\nimport codemode, client, skills",
        "import _thread, __main__, __future__",
        "import sys\ngetattr(sys, 'path').insert(0, '/workspace')\nimport helpers",
    ],
)
async def test_an_import_that_may_succeed_or_is_handled_is_not_spoken_of(code: str) -> None:
    assert await found(code) == ([], [])


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("if boom():\n    import pandas", 4),
        ("def main():\n    if boom():\n        return\n    import pandas\nmain()", 6),
        ("if not boom():\n    exit()\nimport pandas", 5),
        ("def frame():\n    import pandas\ntry:\n    frame()\nexcept ImportError:\n    pass", 4),
        ("try:\n    boom()\nexcept KeyError:\n    import pandas", 6),
    ],
)
async def test_an_import_that_fails_where_it_may_not_be_reached_is_a_warning(code: str, line: int) -> None:
    errors, warnings = await found(code)
    assert errors == []
    (warning,) = warnings
    assert warning.startswith(f"{line}: no module named 'pandas': only the standard library is available; write rows")


@pytest.mark.parametrize(
    "code",
    [
        "def rows():\n    import pandas\n    yield 1\nrows()",
        "async def rows():\n    import pandas\n    yield 1\nrows()",
        "def main():\n    import pandas\nmain = lambda: 1\nmain()",
        "def load():\n    import pandas\ndef main():\n    global load\n    load = lambda: 1\nmain()\nload()",
        "def getcwd():\n    import pandas\nfrom os import *\ngetcwd()",
        "def load():\n    import pandas\nglobals()['load'] = lambda: 1\nload()",
    ],
)
async def test_an_import_in_a_function_whose_call_may_not_run_it_stops_nothing(code: str) -> None:
    errors, _ = await found(code)
    assert errors == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("from skills import triag", "3: there is no skill 'triag'; did you mean triage?"),
        ("from skills.weekly import main", "3: there is no skill 'weekly'; there are: triage"),
        ("import json, skills.weekly as weekly", "3: there is no skill 'weekly'; there are: triage"),
        ("from skills import triage", ""),
        ("from skills.triage import main, missing", ""),
        ("import skills, skills.triage\nfrom skills import *\nfrom skills import __all__", ""),
        ("try:\n    from skills import weekly\nexcept ImportError:\n    pass", ""),
        ("import sys, json\nsys.modules['skills.weekly'] = json\nimport skills.weekly", ""),
    ],
)
async def test_a_skill_that_does_not_exist_is_missing_before_the_first_call(
    tmp_path: Path, code: str, problem: str
) -> None:
    (tmp_path / "triage.py").write_text("def main(): ...")
    async with preflight(OFFICE) as check:
        result = await check.check(HEAD + code, with_skills(tmp_path, IN_WASM))
    assert lines(result.errors) == ([problem] if problem else [])
    assert result.warnings == ()


async def test_an_undefined_name_comes_with_the_import_that_defines_it() -> None:
    code = "print(results, json.dumps(1), defaultdict(list), rows, code.strip())\nshow(boom())\nlist_issues('a')"
    told = lines((await checked(HEAD + code)).errors)
    fresh = "each program starts fresh, with no name of an earlier one"
    for name, hint in {
        "results": "write: from codemode import results",
        "json": "write: import json",
        "defaultdict": "write: from collections import defaultdict",
        "rows": fresh,
        "code": fresh,
        "show": "write: from codemode import show",
        "list_issues": "write: from servers.github import list_issues",
    }.items():
        assert any(f"name {name!r} is not defined; {hint}" in line for line in told), (name, told)


SAVED = frozenset({"helpers", "statistics"})


async def test_a_module_saved_in_the_workspace_is_no_error() -> None:
    assert await found("import helpers", saved=SAVED) == ([], [])
    assert await found("from helpers.inner import f", saved=SAVED) == ([], [])
    assert len((await found("import helper", saved=SAVED))[0]) == 1, "the control: another name"
