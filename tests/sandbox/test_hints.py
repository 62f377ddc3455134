"""What programs know from elsewhere and a sandbox lacks: the error says what to do in its place."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, Tools
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = pytest.mark.asyncio(loop_scope="session")

NETWORK = "programs have no network; call a tool instead"
PROCESSES = "programs can't start processes"
FILES = "the user's files are not in the sandbox, which has only /workspace (files stay) and /tmp; use a server's tool"
OWN_TMP = (
    "/tmp here is the sandbox's own and empty at each start (files in /workspace stay); a file of the user is read by "
    "a server's tool (search_tools)"
)
FRESH = "each program starts fresh, with no name of an earlier one"


@pytest.mark.portable
@pytest.mark.parametrize(("code", "hint"), rows(TABLES["hints"]))
async def test_the_hint_says_what_to_do_in_its_place(lab: Lab, code: str, hint: str) -> None:
    outcome = await lab.run(code)
    assert outcome.error is not None
    assert hint in outcome.error.hint


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["other_failures"]))
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
