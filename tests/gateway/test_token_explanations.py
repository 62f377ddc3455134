"""The model is told which tools may receive the values of tokens, before a call is refused."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.gateway.token_explanations import receivers
from codemode_server.privacy_settings import PrivacySettings

RELEASE = {"crm": ["email", "name"], "gmail/send_*": ["email"], "*": []}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"release": RELEASE}, "The values may go to crm (email, name), gmail/send_* (email) and no others"),
        (
            {"release": RELEASE, "on_release": "ask"},
            "The values may go to crm (email, name), gmail/send_* (email); for others the user is asked",
        ),
        ({"release": {"*": []}}, "No tool may receive the values"),
        ({"on_release": "ask"}, "The user is asked before a tool receives a value"),
    ],
)
def test_what_release_says_is_told(settings: dict[str, Any], said: str) -> None:
    assert receivers(PrivacySettings(**settings)) == said


def test_many_are_counted() -> None:
    release: dict[str, Any] = {f"server_{at}": ["email"] for at in range(20)}
    said = receivers(PrivacySettings(release=release))
    assert said.endswith("server_7 (email), 12 more and no others")
