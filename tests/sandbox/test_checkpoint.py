"""`codemode.checkpoint` on every backend: what one program saves, a program of another session loads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.sandbox.guest.checkpoint import MAX_BYTES

from .lab import Lab

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMPORT = "from codemode import checkpoint\n"


async def test_a_program_of_a_later_session_loads_what_one_saved(lab: Lab) -> None:
    assert await lab.value(IMPORT + "checkpoint.load()") is None
    await lab.run(IMPORT + "checkpoint.save(step=3, context={'done': ['a', 'b'], 'rest': None})")
    point = await lab.value(IMPORT + "checkpoint.load()", session="another")
    assert point.pop("timestamp").endswith("Z")
    assert point == {"step": 3, "context": {"done": ["a", "b"], "rest": None}, "last_task": "x0"}


@pytest.mark.portable
async def test_the_last_checkpoint_counts_and_leaves_one_file(lab: Lab) -> None:
    code = (
        "import os\nfor n in range(3): checkpoint.save(step=n)\n"
        "(checkpoint.load()['step'], os.listdir('/workspace/state'))"
    )
    assert await lab.value(IMPORT + code) == [2, ["checkpoint.json"]]


@pytest.mark.portable
async def test_results_of_tools_are_saved_as_what_they_hold(lab: Lab) -> None:
    code = (
        "from servers.github import list_issues\nfrom codemode import checkpoint\n"
        "checkpoint.save('listed', list_issues(repo='a'))\ncheckpoint.load()['context'][0]['title']"
    )
    assert await lab.value(code) == "a"


REFUSED = {
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


async def test_the_file_has_the_form_of_a_checkpoint_in_the_log(lab: Lab) -> None:
    await lab.run(IMPORT + "checkpoint.save(step=3, context='Working on data analysis')")
    assert lab.workspace is not None
    text = await lab.value("open('/workspace/state/checkpoint.json').read()")
    assert list(json.loads(text)) == ["step", "last_task", "context", "timestamp"]
