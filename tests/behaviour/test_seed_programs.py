"""The Python programs of the documents that the product comes from, unchanged, against real upstreams with those tools;
and what their TypeScript examples do, in Python.

Each is run through a real MCP client, in a real sandbox; the upstreams are MCP servers of the test's own, since the
services that the documents name can't be had. Fragments are in `test_seed_documents`, skills in `test_saved_skills`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .product import Host, configuration, in_memory, in_memory_for_all

pytestmark = pytest.mark.asyncio(loop_scope="module")

ISSUE_FROM_DOCUMENT = """
from servers.google_drive import get_document
from servers.github import create_issue

# Read document content
doc = await get_document({'documentId': 'abc123'})

# Create issue from content
issue = await create_issue({
    'owner': 'myorg',
    'repo': 'myrepo',
    'title': 'Bug Report',
    'body': doc['content']
})

print(f"Created issue #{issue['number']}")
"""

DATA_FILTERING = """
from servers.google_drive import get_sheet

# Get all rows (10,000 rows, processed in sandbox)
all_rows = await get_sheet({'sheetId': 'abc123'})

# Filter for pending orders
pending = [row for row in all_rows if row["Status"] == "pending"]

# Return only summary
print(f"Found {len(pending)} pending orders")
print("First 5:")
for order in pending[:5]:
    print(f"  {order['Order ID']}: ${order['Amount']}")
"""

POLLING_LOOP = """
from servers.slack import get_channel_history
import asyncio

# Wait for deployment notification
found = False
while not found:
    messages = await get_channel_history({'channel': 'C123'})
    found = any('deployment complete' in m['text'] for m in messages)

    if not found:
        await asyncio.sleep(5)  # Wait 5 seconds

print("Deployment complete!")
"""

TRANSCRIPT_TO_CRM = """
from servers.google_drive.get_document import get_document
from servers.salesforce.update_record import update_record

def run(document_id, record_id):
    transcript = get_document(document_id)["content"]
    update_record("SalesMeeting", record_id, {"Notes": transcript})
    return {"status": "ok"}
"""

STATE_OUT = """
import json
import os
os.makedirs('/workspace/state', exist_ok=True)
with open('/workspace/state/results.json', 'w') as f:
    json.dump({'step': 1, 'result': 8}, f)
print("State saved")
"""

STATE_IN = """
import json
with open('/workspace/state/results.json', 'r') as f:
    data = json.load(f)
print(f"Resumed from step {data['step']}")
"""

BASE_CLIENT = """
from client import call_mcp_tool

# Call any MCP tool
result = await call_mcp_tool(
    'mcp__github__create_issue',
    {'owner': 'myorg', 'repo': 'myrepo', 'title': 'Bug'},
    dict
)
"""

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


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    async with in_memory_for_all(configuration(tmp_path_factory.mktemp("seeds"))) as opened:
        yield opened


async def test_a_document_becomes_an_issue_without_passing_the_model(host: Host) -> None:
    answer = await host.run(ISSUE_FROM_DOCUMENT)
    assert answer.content["stdout"] == "Created issue #1\n"
    (issue,) = host.reached("create_issue")
    assert issue["body"].startswith("We agreed on the price.")
    assert "agreed" not in answer.text


async def test_ten_thousand_rows_come_back_as_six_lines(host: Host) -> None:
    answer = await host.run(DATA_FILTERING)
    assert answer.content["stdout"].splitlines()[:3] == ["Found 2500 pending orders", "First 5:", "  ORD-00000: $10.0"]
    assert len(answer.text) < 400


@pytest.mark.slow
async def test_a_polling_loop_waits_in_the_sandbox(host: Host) -> None:
    assert (await host.run(POLLING_LOOP)).content["stdout"] == "Deployment complete!\n"
    assert len(host.reached("get_channel_history")) == 2


async def test_a_plain_function_calls_tools_by_position(host: Host) -> None:
    assert (await host.run(TRANSCRIPT_TO_CRM)).value is None, "the program as it stands only defines the function"
    assert (await host.run(TRANSCRIPT_TO_CRM + '\nrun("abc123", "00Q5f")')).value == {"status": "ok"}
    (update,) = host.reached("update_record")
    assert (update["objectType"], update["recordId"]) == ("SalesMeeting", "00Q5f")
    assert update["data"]["Notes"].startswith("We agreed on the price.")


async def test_a_tool_is_called_by_its_full_name(host: Host) -> None:
    assert (await host.run(BASE_CLIENT + "\nresult['number']")).value == 1


async def test_what_several_servers_say_comes_back_as_one_summary(host: Host) -> None:
    assert (await host.run(AGGREGATION)).value == {
        "open_issues": 3,
        "unread_messages": 2,
        "action_items": ["Resolve: Issue 1 of app", "Resolve: Issue 2 of app"],
    }
    assert sorted(call["tool"] for call in host.reached()) == ["get_channel_history", "list_issues"]


async def test_a_failed_call_is_tried_again_within_the_program(host: Host) -> None:
    text, waited = (await host.run(RETRIES)).value
    assert len(host.reached("boom")) == 3
    assert "kaboom: the branch does not exist" in text
    assert waited == [1, 2]


async def test_the_error_of_one_item_does_not_end_the_loop(host: Host) -> None:
    assert (await host.run(ERROR_OF_ONE)).value == "Sent 2, failed for ['b']"
    assert [call["repo"] for call in host.reached("create_issue")] == ["a", "c"]


async def test_state_of_one_session_is_there_in_the_next(tmp_path: Path) -> None:
    path = configuration(tmp_path, {})
    async with in_memory(path) as host:
        assert (await host.run("import os\nsorted(os.listdir('/workspace'))")).value == ["sessions", "state"]
        assert (await host.run(STATE_OUT)).content["stdout"] == "State saved\n"
        assert "results.json" in (await host.call("list_dir", path="/workspace/state")).text
    async with in_memory(path) as host:
        assert (await host.run(STATE_IN)).content["stdout"] == "Resumed from step 1\n"


async def test_a_long_task_goes_on_from_its_last_saved_progress(tmp_path: Path) -> None:
    path = configuration(tmp_path, {})
    for expected in (0, 200, 400):
        async with in_memory(path) as host:
            assert (await host.run(CHECKPOINTS)).value == expected
