"""What a person or a guardrail writes about a call that is refused reaches the model without known values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codemode_server.guardrails import Block, GuardedCall, GuardedResult, Guardrail, Pass

from .person import Person
from .product import configuration, in_memory
from .test_privacy_tokens import ORIGINAL, SHEET, TO_GITHUB, protected

pytestmark = pytest.mark.slow

PRIVACY = {"servers": {"google_drive": "tokens"}}
READ_ONCE = SHEET + "rows[0]['Customer']"
DOCUMENT = "from servers.google_drive import get_document\nget_document('abc')"


class NamesACustomer(Guardrail):
    """Blocks calls with a reason that has a customer's address."""

    def before_call(self, call: GuardedCall) -> Any:
        return Block(f"not to {ORIGINAL}") if call.tool == "create_issue" else Pass()

    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        return Block(f"belongs to {ORIGINAL}") if call.tool == "get_document" else Pass()


async def test_the_reason_of_a_person_who_refuses_has_tokens_for_the_model(tmp_path: Path) -> None:
    person = Person(action="accept", content={"answer": "No", "reason": f"not to {ORIGINAL}, nor today"})
    async with in_memory(protected(tmp_path, on_release="ask"), elicitation_callback=person.elicit) as host:
        refused = await host.run(SHEET + TO_GITHUB)
        assert "the user refused it: not to <EMAIL_1>, nor today" in refused.text
        assert ORIGINAL not in refused.text
        caught = await host.run(
            f"import servers.github\n{SHEET}try:\n    servers.github.create_issue('a', 'w', rows[0]['Customer'])\n"
            f"except Exception as error:\n    said = str(error)\n{ORIGINAL!r} in said"
        )
        assert caught.value is False, "nor for the program"


@pytest.mark.parametrize(
    ("call", "reason"), [(TO_GITHUB, "not to <EMAIL_1>"), (DOCUMENT, "withheld: guardrail")], ids=["before", "after"]
)
async def test_the_reason_of_a_guardrail_has_tokens_for_the_model(tmp_path: Path, call: str, reason: str) -> None:
    rail = [{"use": f"{__name__}:NamesACustomer"}]
    async with in_memory(configuration(tmp_path, guardrails=rail, privacy=PRIVACY)) as host:
        assert (await host.run(READ_ONCE)).value == "<EMAIL_1>"
        refused = await host.run(SHEET + call)
        assert reason in refused.text
        assert "<EMAIL_1>" in refused.text
        assert ORIGINAL not in refused.text
