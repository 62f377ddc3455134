"""What programs know from elsewhere and a sandbox lacks: the error says what to do in its place."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, Tools

pytestmark = pytest.mark.asyncio(loop_scope="session")

NETWORK = "programs have no network; call a tool instead"
PROCESSES = "programs can't start processes"
FILES = "the user's files are not in the sandbox, which has only /workspace (files stay) and /tmp; use a server's tool"
OWN_TMP = (
    "/tmp here is the sandbox's own and empty at each start (files in /workspace stay); a file of the user is read by "
    "a server's tool (search_tools)"
)
SKILLS = "skills are no folder in programs: from skills.<name> import <name>; to save one: from codemode import skills"
TOOLS = "tools are not files in programs: from servers.<server> import <tool>"
FRESH = "each program starts fresh, with no name of an earlier one"
GATHER = "import asyncio\nfrom servers.github import echo\n"
PLAIN = "without an await in the program, calls return plain values; or use tool.map(items)"
AWAIT_GATHER = f'write "await asyncio.gather(…)": {PLAIN}'
HINTS = {
    "def read():\n    await read()\nread()": "write `async def`, or call without `await`",
    "import urllib.request\nurllib.request.urlopen('http://example.com')": NETWORK,
    "import socket\nsocket.create_connection(('example.com', 80))": NETWORK,
    "import subprocess\nsubprocess.run(['git', 'log'])": PROCESSES,
    "import pathlib\npathlib.Path('/Users/me/x.txt').read_text()": FILES,
    "open('~/notes.md')": FILES,
    "open('/workspace/kept.txt', 'w').write('x')\nopen('kept.txt')": "write paths in full: /workspace/kept.txt; ",
    "open('/tmp/of_the_last_program')": OWN_TMP,
    "open('skills/triage.txt', 'w')": SKILLS,
    "import os\nos.listdir('/servers')": TOOLS,
    "rows[0]": f'{FRESH}; the last result is results["x2"] (from codemode import results)',
    "repository_rows = 1\nrepo_rows": "did you mean 'repository_rows'?",
    "show(1)": "write: from codemode import show",
    "print(results.last)": "write: from codemode import results",
    "Path('/x')": "write: from pathlib import Path",
    f"{GATHER}def f(): return asyncio.gather(*[echo(n=n) for n in 'ab'])\nf()": AWAIT_GATHER,
    f"{GATHER}def f(): return asyncio.run(asyncio.gather(echo(n=1)))\nf()": AWAIT_GATHER,
    f"{GATHER}asyncio.run(echo(n=1))": f'write "await tool(…)": {PLAIN}',
    "def f():\n    return [rows for _ in 'a']\nf()": FRESH,
}


@pytest.mark.portable
@pytest.mark.parametrize("code", HINTS)
async def test_the_hint_says_what_to_do_in_its_place(lab: Lab, code: str) -> None:
    outcome = await lab.run(code)
    assert outcome.error is not None
    assert HINTS[code] in outcome.error.hint


@pytest.mark.portable
@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    x += 1\n    x = 1\nf()",
        "raise OSError('x')",
        "raise NotImplementedError",
        "open('/workspace')",
        "open('/tmp')",
        "import sqlite3\nsqlite3.connect(':memory:').execute('select * from nope')",
        "import math\nmath.nope",
        "from servers.github import boom\nboom()",
        "import asyncio\nasync def main(): await asyncio.gather(1)\nasyncio.run(main())",
    ],
)
async def test_another_failure_gets_no_such_hint(lab: Lab, code: str) -> None:
    outcome = await lab.run(code, Tools())
    assert outcome.error is not None
    hints = (NETWORK, PROCESSES, FILES, OWN_TMP, FRESH, "write", "did you mean")
    assert not any(hint in outcome.error.hint for hint in hints)


@pytest.mark.portable
async def test_an_error_that_is_raised_from_itself_is_reported_as_any_other(lab: Lab) -> None:
    outcome = await lab.run("error = OSError('broken')\nraise error from error")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("OSError", "broken")


@pytest.mark.portable
async def test_a_similar_name_is_suggested_once_by_python_or_by_the_hint(lab: Lab) -> None:
    outcome = await lab.run("rows = []\nrow")
    assert outcome.error is not None
    assert (outcome.error.traceback + outcome.error.hint).count("'rows'") == 1
