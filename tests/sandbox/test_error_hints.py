"""The hint beside an error: what the sandbox lacks, or the likely mend where the failing line makes it certain."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, Tools
from tests.sandbox.shop import Shop
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
ISSUES = "from servers.github import list_issues, create_issue, echo\nissues = list_issues(repo='a/b')\n"
PICTURE = "from servers.shop import picture\nr = picture()\n"
TEXT = "from servers.shop import by_start\nr = by_start('x')\n"
SHOP = "from servers.shop import *\n"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (head + code, hint)
        for head, table in ((SHOP, "dicts"), (PICTURE, "results"), (TEXT, "texts"))
        for code, hint in TABLES[table]
    ],
)
async def test_the_mend_says_what_a_result_holds_and_how_to_read_it(lab: Lab, code: str, hint: str) -> None:
    error = await lab.failure(code, Shop())
    assert hint in error.hint


@pytest.mark.parametrize(
    ("code", "hint"), [*((ISSUES + code, hint) for code, hint in TABLES["hints"]), *TABLES["hints_hints"]]
)
async def test_the_hint_names_what_is_there_and_what_to_do(lab: Lab, code: str, hint: str) -> None:
    error = await lab.failure(code, Tools())
    assert hint in error.hint


@pytest.mark.parametrize("code", rows(TABLES["uncertain"]))
async def test_where_nothing_is_certain_nothing_is_said_of_it(lab: Lab, code: str) -> None:
    error = await lab.failure(code, Tools())
    assert error.hint in ("", "{} is an empty dict")


async def test_looking_runs_nothing_of_the_program(lab: Lab) -> None:
    """Nor does an object that resists being looked at make another error of it."""
    code = (
        "seen = []\n"
        "class Odd(dict):\n"
        "    def __getitem__(self, key): seen.append(1); raise KeyError(key)\n"
        "    def __repr__(self): seen.append(2); raise RuntimeError\n"
        "    def __iter__(self): raise RuntimeError\n"
        "import atexit\n"
        "x = Odd(a=Odd())\n"
        "x['b']\n"
    )
    error = await lab.failure(code)
    assert (error.type, error.line) == ("KeyError", 3)


async def test_a_mend_is_short_whatever_there_is(lab: Lab) -> None:
    code = "x = {('k' * 1000) + str(n): n for n in range(10_000)}\nx['zzz']"
    error = await lab.failure(code)
    assert 100 < len(error.hint) <= 500


NETWORK = "programs have no network; call a tool instead"
PROCESSES = "programs can't start processes"
FILES = "the user's files are not in the sandbox, which has only /workspace (files stay) and /tmp; use a server's tool"
OWN_TMP = (
    "/tmp here is the sandbox's own and empty at each start (files in /workspace stay); a file of the user is read by "
    "a server's tool (search_tools)"
)
FRESH = "each program starts fresh, with no name of an earlier one"


@pytest.mark.parametrize("code", rows(TABLES["other_failures"]))
async def test_another_failure_gets_no_such_hint(lab: Lab, code: str) -> None:
    error = await lab.failure(code, Tools())
    hints = (NETWORK, PROCESSES, FILES, OWN_TMP, FRESH, "write", "did you mean")
    assert not any(hint in error.hint for hint in hints)


async def test_an_error_that_is_raised_from_itself_is_reported_as_any_other(lab: Lab) -> None:
    error = await lab.failure("error = OSError('broken')\nraise error from error")
    assert (error.type, error.message) == ("OSError", "broken")


async def test_a_similar_name_is_suggested_once_by_python_or_by_the_hint(lab: Lab) -> None:
    error = await lab.failure("rows = []\nrow")
    assert (error.traceback + error.hint).count("'rows'") == 1
