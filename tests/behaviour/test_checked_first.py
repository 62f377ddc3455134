"""A program that would surely fail is refused before anything of it runs: the upstream sees nothing, the record says
so, and the model learns what is right."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from .product import Host, configuration, in_memory_for_all

FIRST = "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='first')\n"
"""A call that would have happened."""
MISTAKES = {
    "a tool": (
        "from servers.github import crate_issue",
        'no tool "crate_issue" in servers.github; nearest: create_issue',
    ),
    "a server": ("import servers.githb", 'no server "githb"; nearest: github'),
    "a parameter": ("create_issue(owner='o', repo='r', titel='x')", "has no argument 'titel'; did you mean 'title'?"),
    "a constant": ("create_issue(owner='o', repo='r', title=5)", "'title' must be a string, not 5"),
    "a name": ("create_issue(owner='o', repo='r', title=titel)", "name 'titel' is not defined"),
    "a package": ("import pandas", "no module named 'pandas': only the standard library is available"),
    "an await": ("async def more(): pass\nmore()\n1", "more() is async and nobody awaits it"),
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """One product for all mistakes."""
    async with in_memory_for_all(configuration(tmp_path_factory.mktemp("shared"))) as host:
        yield host


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("mistake", "told"), MISTAKES.values(), ids=MISTAKES)
async def test_a_program_with_a_mistake_after_its_first_call_makes_no_call(
    shared: Host, mistake: str, told: str
) -> None:
    before = len(shared.reached())
    answer = await shared.run(FIRST + mistake)
    assert answer.error["type"] == "CheckFailed"
    assert answer.error["message"].startswith("not run:\nline ")
    assert told in answer.error["message"]
    assert answer.content["calls"] == []
    assert len(shared.reached()) == before
    assert (await shared.run(FIRST)).content["status"] == "succeeded", "the positive control"
    assert len(shared.reached("create_issue")) == before + 1


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_doubtful_is_told_beside_the_result_and_the_program_runs(shared: Host) -> None:
    code = FIRST + "try:\n    create_issue(titel='x')\nexcept TypeError as error:\n    print('caught')"
    answer = await shared.run(code)
    assert answer.content["status"] == "succeeded"
    assert answer.content["stdout"] == "caught\n"
    (warning,) = answer.content["warnings"]
    assert warning.startswith("line 4: create_issue() has no argument 'titel'; did you mean 'title'?")
    assert f"[warning: {warning}]" in answer.text
