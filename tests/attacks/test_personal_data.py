"""Threat: a program moves personal data to a server that may not have it, plainly or in another spelling.

Rule: what reads as personal data as it stands, percent-decoded, or without its full-width and unseen characters, is not
sent; the proof is the log of the upstream. Other encodings get through, as the guide says: they are here with their
names, so that the list is true.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.behaviour.product import Host, configuration, in_memory_for_all

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

RAIL = {"use": "personal_data", "settings": {"release": {"salesforce": ["email"]}}}
READ = (
    "import base64, json\nfrom urllib.parse import quote\nfrom codemode import ToolError\n"
    "from servers.google_drive import get_sheet\nfrom servers.salesforce import update_record\n"
    "from servers.github import create_issue, list_issues\n"
    "it = get_sheet('s')[1]['Customer']\n"
)
CAUGHT = {
    "in a text": "create_issue('a', 'b', 'c', f'Please write to {it}, thanks')",
    "in an argument of a read": "list_issues(it)",
    "percent-encoded twice": "create_issue('a', 'b', 'c', quote(quote(it, safe=''), safe=''))",
    "in base64": "create_issue('a', 'b', 'c', base64.b64encode(it.encode()).decode())",
    "with full-width letters": "create_issue('a', 'b', 'c', ''.join(chr(ord(c) + 0xfee0) for c in it))",
    "with characters of no width": "create_issue('a', 'b', 'c', '\\u200b'.join(it))",
    "far behind in a long text": "create_issue('a', 'b', 'c', 'word ' * 40_000 + it)",
}
THROUGH = {
    "hexadecimal": "create_issue('a', 'b', 'c', it.encode().hex())",
    "split between arguments": "create_issue('a', 'b', it.split('@')[0], it.split('@')[1])",
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    path = configuration(tmp_path_factory.mktemp("personal"), guardrails=[RAIL])
    async with in_memory_for_all(path) as opened:
        yield opened


async def test_a_program_moves_addresses_to_the_crm_and_nowhere_else(host: Host) -> None:
    moved = await host.run(f"{READ}update_record('Lead', '1', {{'email': it}})['success']")
    assert moved.value is True, "the control of all others"
    assert host.reached("update_record")[0]["data"] == {"email": "customer001@example.com"}
    refused = await host.run(f"{READ}create_issue('acme', 'web', 'Customer', body=it)")
    assert "'body' of the arguments holds personal data (kind email)" in refused.text
    assert "github/create_issue may not receive" in refused.text
    assert host.reached("create_issue") == []


@pytest.mark.evasion
@pytest.mark.parametrize("attempt", CAUGHT.values(), ids=CAUGHT.keys())
async def test_no_spelling_that_reads_as_personal_data_is_sent(host: Host, attempt: str) -> None:
    before = host.reached("create_issue"), host.reached("list_issues")
    answer = await host.run(READ + attempt)
    assert answer.content["status"] == "failed", answer.text
    assert "may not receive" in answer.text
    assert (host.reached("create_issue"), host.reached("list_issues")) == before


@pytest.mark.evasion
@pytest.mark.parametrize("attempt", THROUGH.values(), ids=THROUGH.keys())
async def test_other_encodings_get_through_as_the_guide_says(host: Host, attempt: str) -> None:
    before = len(host.reached("create_issue"))
    answer = await host.run(READ + attempt)
    assert answer.content["status"] == "succeeded", answer.text
    assert len(host.reached("create_issue")) == before + 1
