"""What the TypeScript examples of the documents do, as programs in Python: their text can't run here.

Each shows both ends. `test_saved_skills` has the two about skills.
"""

from __future__ import annotations

from pathlib import Path

from .product import configuration, in_memory, office

AGGREGATION = """
import asyncio
from servers.github import list_issues
from servers.slack import get_channel_history

issues, messages = await asyncio.gather(list_issues(repo="app"), get_channel_history(channel="engineering"))
{
    "open_issues": len([issue for issue in issues if issue["state"] == "open"]),
    "unread_messages": len(messages),
    "action_items": [f"Resolve: {issue['title']}" for issue in issues[:2]],
}
"""
"""The third document, "Pattern 3: The Aggregation Pattern"."""

RETRIES = """
import asyncio
from codemode import ToolError
from servers.github import boom

waited = []

async def robust_api_call(function, max_retries=3):
    for i in range(max_retries):
        try:
            return await function()
        except ToolError as error:
            if i == max_retries - 1:
                return f"gave up: {error}"
            waited.append(2**i)
            await asyncio.sleep(2**i / 1000)

[await robust_api_call(boom), waited]
"""
"""The same, "Benefit 3: Efficient Control Flow", its second example."""

ERROR_OF_ONE = """
from codemode import ToolError
from servers.github import boom, create_issue

sent, failed = 0, []
for customer in ("a", "b", "c"):
    try:
        boom() if customer == "b" else create_issue(owner="o", repo=customer, title="Welcome")
        sent += 1
    except ToolError as error:
        failed.append(customer)
f"Sent {sent}, failed for {failed}"
"""
"""The same, its first example: the error of one customer is handled in the loop."""

CHECKPOINTS = """
import json

progress = {"processed": 0, "last": None}
try:
    with open("/workspace/state/progress.json") as file:
        progress = json.load(file)
except FileNotFoundError:
    pass

before = progress["processed"]
for customer in range(before, before + 250):
    progress = {"processed": customer + 1, "last": customer}
    if progress["processed"] % 100 == 0:
        with open("/workspace/state/progress.json", "w") as file:
            json.dump(progress, file)
before
"""
"""The same, "Benefit 2": progress is saved after every hundred customers, and the next run goes on from there."""


async def test_what_several_servers_say_comes_back_as_one_summary(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "github", "slack"))) as host:
        assert (await host.run(AGGREGATION)).value == {
            "open_issues": 3,
            "unread_messages": 2,
            "action_items": ["Resolve: Issue 1 of app", "Resolve: Issue 2 of app"],
        }
        assert sorted(call["tool"] for call in host.reached()) == ["get_channel_history", "list_issues"]


async def test_a_failed_call_is_tried_again_within_the_program(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        text, waited = (await host.run(RETRIES)).value
        assert len(host.reached("boom")) == 3
    assert "kaboom: the branch does not exist" in text
    assert waited == [1, 2]


async def test_the_error_of_one_item_does_not_end_the_loop(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        assert (await host.run(ERROR_OF_ONE)).value == "Sent 2, failed for ['b']"
        assert [call["repo"] for call in host.reached("create_issue")] == ["a", "c"]


async def test_a_long_task_goes_on_from_its_last_saved_progress(tmp_path: Path) -> None:
    path = configuration(tmp_path, {})
    for expected in (0, 200, 400):
        async with in_memory(path) as host:
            assert (await host.run(CHECKPOINTS)).value == expected
