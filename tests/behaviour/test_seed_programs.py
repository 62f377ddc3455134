"""The Python programs of the documents that the product comes from, unchanged, against real upstreams with those tools.

Each is run through a real MCP client, in a real sandbox; the upstreams are MCP servers of the test's own, since the
services that the documents name can't be had. Their fragments are in `test_seed_documents`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .product import configuration, in_memory, office

pytestmark = pytest.mark.slow

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

SKILL = '''
from servers.google_drive import get_sheet

async def check_pending_orders(sheet_id: str) -> int:
    """Reusable skill created by agent"""
    all_rows = await get_sheet({'sheetId': sheet_id})
    pending = [r for r in all_rows if r["Status"] == "pending"]
    return len(pending)
'''

BASE_CLIENT = """
from client import call_mcp_tool

# Call any MCP tool
result = await call_mcp_tool(
    'mcp__github__create_issue',
    {'owner': 'myorg', 'repo': 'myrepo', 'title': 'Bug'},
    dict
)
"""


async def test_a_document_becomes_an_issue_without_passing_the_model(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "google_drive", "github"))) as host:
        answer = await host.run(ISSUE_FROM_DOCUMENT)
    assert answer.content["stdout"] == "Created issue #1\n"
    (issue,) = host.reached("create_issue")
    assert issue["body"].startswith("We agreed on the price.")
    assert "agreed" not in answer.text


async def test_ten_thousand_rows_come_back_as_six_lines(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "google_drive"))) as host:
        answer = await host.run(DATA_FILTERING)
    assert answer.content["stdout"].splitlines()[:3] == ["Found 2500 pending orders", "First 5:", "  ORD-00000: $10.0"]
    assert len(answer.text) < 400


@pytest.mark.slow
async def test_a_polling_loop_waits_in_the_sandbox(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "slack"))) as host:
        answer = await host.run(POLLING_LOOP)
    assert answer.content["stdout"] == "Deployment complete!\n"
    assert len(host.reached("get_channel_history")) == 2


async def test_a_plain_function_calls_tools_by_position(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "google_drive", "salesforce"))) as host:
        assert (await host.run(TRANSCRIPT_TO_CRM)).value is None, "the program as it stands only defines the function"
        answer = await host.run(TRANSCRIPT_TO_CRM + '\nrun("abc123", "00Q5f")')
    assert answer.value == {"status": "ok"}
    (update,) = host.reached("update_record")
    assert (update["objectType"], update["recordId"]) == ("SalesMeeting", "00Q5f")
    assert update["data"]["Notes"].startswith("We agreed on the price.")


async def test_state_of_one_session_is_there_in_the_next(tmp_path: Path) -> None:
    path = configuration(tmp_path, {})
    async with in_memory(path) as host:
        assert (await host.run(STATE_OUT)).content["stdout"] == "State saved\n"
    async with in_memory(path) as host:
        assert (await host.run(STATE_IN)).content["stdout"] == "Resumed from step 1\n"


async def test_a_new_workspace_has_only_what_programs_write_into_it(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {})) as host:
        folders = ["sessions", "state"]
        assert (await host.run("import os\nsorted(os.listdir('/workspace'))")).value == folders
        await host.run("open('/workspace/a.txt', 'w').write('x')")
        listed = (await host.call("list_dir", path="/workspace")).text
        assert listed == "/workspace\na.txt  1 bytes\nsessions/\nstate/"


async def test_a_saved_skill_is_imported_by_a_later_program(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "check_pending_orders.py").write_text(SKILL)
    async with in_memory(configuration(tmp_path, office(tmp_path, "google_drive"))) as host:
        answer = await host.run(
            "from skills.check_pending_orders import check_pending_orders\nawait check_pending_orders('abc123')"
        )
    assert answer.value == 2500


async def test_a_tool_is_called_by_its_full_name(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        assert (await host.run(BASE_CLIENT + "\nresult['number']")).value == 1
