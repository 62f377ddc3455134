"""From a sheet to a CRM: the CRM gets the addresses, and another server does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .person import Person
from .product import configuration, in_memory

pytestmark = pytest.mark.slow

SHEET = (
    "from servers.google_drive import get_sheet\nfrom servers.salesforce import update_record\n"
    "from servers.github import create_issue\nrows = get_sheet('abc123')[:3]\n"
)
TO_CRM = (
    "for row in rows:\n    update_record('SalesMeeting', row['Order ID'], {'email': row['Customer']})\n"
    "f'{len(rows)} updated'"
)
TO_GITHUB = "create_issue('acme', 'web', 'Customer', body=rows[0]['Customer'])"


def rail(**settings: Any) -> list[dict[str, Any]]:
    return [{"use": "personal_data", "settings": settings}]


async def test_a_program_moves_addresses_to_the_crm_and_nowhere_else(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, guardrails=rail(release={"salesforce": ["email"]}))) as host:
        moved = await host.run(SHEET + TO_CRM)
        assert moved.value == "3 updated"
        assert [it["data"]["email"] for it in host.reached("update_record")] == [
            f"customer00{number}@example.com" for number in range(3)
        ]
        refused = await host.run(SHEET + TO_GITHUB)
        assert "'body' of the arguments holds personal data (kind email)" in refused.text
        assert "github/create_issue may not receive" in refused.text
        assert host.reached("create_issue") == []


async def test_without_a_release_the_crm_gets_none_either(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, guardrails=rail())) as host:
        assert "salesforce/update_record may not receive" in (await host.run(SHEET + TO_CRM)).text
        assert host.reached("update_record") == []


@pytest.mark.parametrize(("answer", "sent"), [("accept", 1), ("decline", 0)])
async def test_the_person_may_be_asked(tmp_path: Path, answer: Any, sent: int) -> None:
    person = Person(action=answer, content={"answer": "Allow this call"})
    path = configuration(tmp_path, guardrails=rail(action="ask"))
    async with in_memory(path, elicitation_callback=person.elicit) as host:
        await host.run(SHEET + TO_GITHUB)
        assert len(host.reached("create_issue")) == sent
    assert "customer000@example.com" in person.seen[0].message
