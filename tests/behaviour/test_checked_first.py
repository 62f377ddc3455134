"""A program that would surely fail is refused before anything of it runs: the upstream sees nothing, the record says
so, and the model learns what is right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .product import Host, configuration, in_memory, in_memory_for_all, office

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


async def test_what_is_doubtful_is_told_beside_the_result_and_the_program_runs(tmp_path: Path) -> None:
    code = FIRST + "try:\n    create_issue(titel='x')\nexcept TypeError as error:\n    print('caught')"
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        answer = await host.run(code)
    assert answer.content["status"] == "succeeded"
    assert answer.content["stdout"] == "caught\n"
    (warning,) = answer.content["warnings"]
    assert warning.startswith("line 4: create_issue() has no argument 'titel'; did you mean 'title'?")
    assert f"[warning: {warning}]" in answer.text


async def test_the_check_can_be_turned_off(tmp_path: Path) -> None:
    code = FIRST + MISTAKES["a parameter"][0]
    for check, kind in (("warnings", "TypeError"), ("none", "TypeError"), ("errors", "CheckFailed")):
        folder = tmp_path / check
        folder.mkdir()
        async with in_memory(configuration(folder, office(folder, "github"), types={"check": check})) as host:
            answer = await host.run(code)
            assert answer.error["type"] == kind
            assert bool(answer.content.get("warnings")) is (check == "warnings")
            assert len(host.reached("create_issue")) == (0 if check == "errors" else 1)
