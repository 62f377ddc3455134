"""Threat: a program moves personal data to a server that may not have it, plainly or in another spelling.

Rule: what reads as personal data as it stands, percent-decoded, or without its full-width and unseen characters, is not
sent; the proof is the log of the upstream. Other encodings get through, as the guide says: they are here with their
names, so that the list is true.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.product import configuration, in_memory

pytestmark = pytest.mark.slow

RAIL = {"use": "personal_data", "settings": {"release": {"salesforce": ["email"]}}}
READ = (
    "import base64, codecs, json\nfrom urllib.parse import quote\nfrom codemode import ToolError\n"
    "from servers.google_drive import get_sheet\nfrom servers.salesforce import update_record\n"
    "from servers.github import create_issue, list_issues\n"
    "it = get_sheet('s')[1]['Customer']\n"
)
CAUGHT = {
    "plain": "create_issue('a', 'b', 'c', it)",
    "in a text": "create_issue('a', 'b', 'c', f'Please write to {it}, thanks')",
    "as another argument": "create_issue('a', it, 'c')",
    "in an argument of a read": "list_issues(it)",
    "in upper case": "create_issue('a', 'b', 'c', it.upper())",
    "as JSON in a text": "create_issue('a', 'b', 'c', json.dumps({'to': it}))",
    "percent-encoded": "create_issue('a', 'b', 'c', quote(it, safe=''))",
    "percent-encoded twice": "create_issue('a', 'b', 'c', quote(quote(it, safe=''), safe=''))",
    "every character percent-encoded": "create_issue('a', 'b', 'c', ''.join(f'%{byte:02x}' for byte in it.encode()))",
    "in base64": "create_issue('a', 'b', 'c', base64.b64encode(it.encode()).decode())",
    "with full-width letters": "create_issue('a', 'b', 'c', ''.join(chr(ord(c) + 0xfee0) for c in it))",
    "with characters of no width": "create_issue('a', 'b', 'c', '\\u200b'.join(it))",
    "with a soft hyphen": "create_issue('a', 'b', 'c', it.replace('@', '@\\u00ad'))",
    "in a table": "create_issue('a', 'b', 'c', f'id,customer\\n1,{it}\\n2,{it}\\n')",
    "as an address of a page": "create_issue('a', 'b', 'c', f'https://example.net/?to={it}')",
    "as a mailto link": "create_issue('a', 'b', 'c', f'<a href=\"mailto:{it}\">')",
    "between letters of another script": "create_issue('a', 'b', 'c', f'邮件{it}。')",
    "far behind in a long text": "create_issue('a', 'b', 'c', 'word ' * 40_000 + it)",
    "as a card in the title": "create_issue('a', 'b', '4111 1111 1111 1111')",
    "as an account in lower case": "create_issue('a', 'b', 'de89370400440532013000')",
    "after its error was swallowed": (
        "\nfor _ in range(3):\n    try:\n        create_issue('a', 'b', 'c', it)\n    except ToolError:\n        pass\n"
        "create_issue('a', 'b', 'c', it)"
    ),
}
THROUGH = {
    "base64 within a text": "create_issue('a', 'b', 'c', 'see ' + base64.b64encode(it.encode()).decode())",
    "hexadecimal": "create_issue('a', 'b', 'c', it.encode().hex())",
    "reversed": "create_issue('a', 'b', 'c', it[::-1])",
    "rot13": "create_issue('a', 'b', 'c', codecs.encode(it, 'rot13').replace('@', '#'))",
    "in words": "create_issue('a', 'b', 'c', it.replace('@', ' at ').replace('.', ' dot '))",
    "split between arguments": "create_issue('a', 'b', it.split('@')[0], it.split('@')[1])",
    "a character in each call": "[create_issue('a', 'b', c) for c in it] and create_issue('a', 'b', 'c')",
    "as numbers": "create_issue('a', 'b', 'c', str(list(it.encode())))",
}


@pytest.mark.evasion
@pytest.mark.parametrize("attempt", CAUGHT.values(), ids=CAUGHT.keys())
async def test_no_spelling_that_reads_as_personal_data_is_sent(tmp_path: Path, attempt: str) -> None:
    async with in_memory(configuration(tmp_path, guardrails=[RAIL])) as host:
        answer = await host.run(READ + attempt)
        assert answer.content["status"] == "failed", answer.text
        assert "may not receive" in answer.text
        assert not host.reached("create_issue")
        assert not host.reached("list_issues")
        control = await host.run(f"{READ}update_record('Lead', '1', {{'email': it}})['success']")
        assert control.value is True, "the control"
        assert host.reached("update_record")[0]["data"] == {"email": "customer001@example.com"}


@pytest.mark.evasion
@pytest.mark.parametrize("attempt", THROUGH.values(), ids=THROUGH.keys())
async def test_other_encodings_get_through_as_the_guide_says(tmp_path: Path, attempt: str) -> None:
    async with in_memory(configuration(tmp_path, guardrails=[RAIL])) as host:
        answer = await host.run(READ + attempt)
        assert answer.content["status"] == "succeeded", answer.text
        assert host.reached("create_issue")
