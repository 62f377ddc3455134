"""A program that certainly calls a tool that the permissions refuse does not start: else it would be refused in its
middle, after calls that changed something. Where the refusal may be caught, the program runs."""

from __future__ import annotations

import pytest

from .kit import checked, lines

DENIED = {"rules": [{"deny": "github/create_*", "reason": "read only on Fridays"}]}
REFUSAL = (
    "github.create_issue is not permitted: rule 1 of permissions.rules (deny: github/create_*): "
    "read only on Fridays. Do not try again; tell the user."
)
IMPORT = "from servers.github import boom, create_issue\n"
CALL = "create_issue(owner='o', title='t')"


@pytest.mark.parametrize(
    "program",
    [
        f"{IMPORT}boom()\n{CALL}",
        f"{IMPORT}boom()\nawait {CALL}",
        f"import servers.github\n\nservers.github.{CALL}",
        f"{IMPORT}\ncreate_issue.raw(owner='o', title='t')",
    ],
)
async def test_a_call_of_a_denied_tool_stops_the_program_in_the_words_of_the_refusal(program: str) -> None:
    found = await checked(program, permissions=DENIED)
    assert [finding.message for finding in found.errors] == [REFUSAL]
    assert not (await checked(program)).errors or "{}" in program, "control"


@pytest.mark.parametrize(
    "program",
    [
        f"{IMPORT}try:\n    {CALL}\nexcept ToolError:\n    boom()",
        f"import asyncio\n{IMPORT}await asyncio.gather({CALL}, return_exceptions=True)",
        f"{IMPORT}def unused():\n    {CALL}\nboom()",
        f"{IMPORT}create_issue.map(['a'], owner='o')",
        f"{IMPORT}for title in 'ab':\n    create_issue(owner='o', title=title)",
        f"{IMPORT}boom()",
        f"{IMPORT}tools = [boom, create_issue]\ntools[0]()",
    ],
)
async def test_a_program_that_may_never_be_refused_runs(program: str) -> None:
    assert not (await checked(program, permissions=DENIED)).errors


async def test_a_program_with_a_call_that_a_person_may_approve_runs() -> None:
    permissions = {"rules": [{"ask": "github/create_*"}]}
    assert not (await checked(f"{IMPORT}boom()\n{CALL}", permissions=permissions)).errors


async def test_a_call_with_wrong_arguments_is_refused_for_its_permission_and_its_schema_is_not_explained() -> None:
    found = await checked(f"{IMPORT}create_issue(titel='t')", permissions=DENIED)
    assert lines(found.errors) == [f"2: {REFUSAL}"]
