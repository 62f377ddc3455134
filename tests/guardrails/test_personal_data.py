"""The guardrail `personal_data`: which calls it blocks or asks about, what it releases, and what its reasons say."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.errors import SettingsError
from codemode_server.features.guardrails import Block, Pass
from codemode_server.features.guardrails.builtin import personal_data
from codemode_server.features.guardrails.builtin.personal_data import PersonalDataGuardrail, PersonalDataSettings
from codemode_server.features.guardrails.loading import load_guardrails
from codemode_server.features.guardrails.settings import GuardrailSettings
from codemode_server.features.guardrails.testing import GuardrailProbe, guarded_call

EMAIL = "jane.roe@example.org"


def probe(**settings: Any) -> GuardrailProbe:
    return GuardrailProbe(PersonalDataGuardrail(PersonalDataSettings(**settings)))


@pytest.mark.parametrize(
    "arguments",
    [
        {"body": f"write to {EMAIL}"},
        {"rows": [{"cells": ["a", {"deep": [EMAIL]}]}]},
        {"fields": {EMAIL: 1}},
        {EMAIL: 1},
        {"card": 4111111111111111},
        {"customer": {"full_name": "Jane Roe"}},
        {"fields": {"ghp_" + "a1B2c3D4e5" * 4: 1}},
    ],
    ids=["text", "nested", "key", "argument", "number", "name", "credential-as-key"],
)
async def test_personal_data_is_blocked_wherever_it_stands(arguments: dict[str, Any]) -> None:
    verdict = await probe().call(guarded_call("web/search", **arguments))
    assert isinstance(verdict, Block)
    assert "(kind " in verdict.reason
    assert "web/search may not receive" in verdict.reason
    assert "jane" not in verdict.reason, "never the value"


async def test_what_is_not_personal_passes() -> None:
    arguments: dict[str, Any] = {
        "query": "lamps under 4711 EUR",
        "order": 4111111111111111,
        "items": [1, 2.5, None, True],
    }
    assert isinstance(await probe().call(guarded_call("web/search", **arguments)), Pass)


async def test_a_tool_receives_the_kinds_that_are_released_to_it_and_no_others() -> None:
    crm = probe(release={"crm": ["email"], "crm/add_*": ["name"], "vault": ["*"]})
    contact: dict[str, Any] = {"email": EMAIL, "full_name": "Jane Roe"}
    assert isinstance(await crm.call(guarded_call("crm/add_contact", **contact)), Pass)
    assert isinstance(await crm.call(guarded_call("vault/put", **contact)), Pass)
    assert "kind name" in str(await crm.call(guarded_call("crm/change_contact", **contact)))
    assert "kind phone" in str(await crm.call(guarded_call("crm/add_contact", phone="+49 30 901820")))
    assert "kind email" in str(await crm.call(guarded_call("web/search", **contact)))


async def test_an_own_pattern_is_a_kind_that_can_be_released() -> None:
    call = guarded_call("web/search", q="EMP-004711")
    assert isinstance(await probe().call(call), Pass), "the control"
    assert "kind employee" in str(await probe(patterns={"employee": "EMP-[0-9]{6}"}).call(call))
    released = probe(patterns={"employee": "EMP-[0-9]{6}"}, release={"web": ["employee"]})
    assert isinstance(await released.call(call), Pass)


async def test_arguments_that_cant_be_searched_whole_are_blocked() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert isinstance(await probe().call(guarded_call("web/search", q=deep)), Block)
    assert isinstance(await probe().call(guarded_call("web/search", q=[[1]])), Pass), "the control"


async def test_more_text_than_is_searched_is_blocked_unless_every_kind_is_released() -> None:
    call = guarded_call("web/upload", parts=["lorem " * 100_000, "ipsum " * 100_000])
    assert "more than 1,000,000 characters" in str(await probe().call(call))
    assert isinstance(await probe(release={"web": ["*"]}).call(call), Pass)
    assert isinstance(await probe().call(guarded_call("web/upload", part="lorem " * 100_000)), Pass), "the control"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"release": {"crm": ["emails"]}}, "there is no kind 'emails'"),
        ({"thresholds": {"fone": 1}}, "there is no kind 'fone'"),
        ({"patterns": {"own": "("}}, "is no regular expression"),
        ({"patterns": {"own": "a*"}}, "matches an empty text"),
        ({"fields": {"fone": ["x"]}}, "there is no kind 'fone'"),
        ({"action": "warn"}, "action"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PersonalDataSettings(**settings)


def test_without_the_libraries_it_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    one = GuardrailSettings(use="personal_data")
    assert load_guardrails([one]), "the control"
    monkeypatch.setattr(personal_data, "has_privacy", lambda: False)
    with pytest.raises(SettingsError, match=r"pip install .*\[privacy\]"):
        load_guardrails([one])
