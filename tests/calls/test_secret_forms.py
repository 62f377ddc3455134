"""Which fields of forms are taken for a question for a secret: names, titles and types as real servers have them.

A warning on harmless forms teaches people to overlook it, so both directions are specified.
"""

from __future__ import annotations

import pytest

from codemode_server.calls.forwarded_input import asks_for_secret

SECRETS = [
    ("password", "string"),
    ("api_key", "string"),
    ("client_secret", "string"),
    ("access_token", "string"),
    ("token", "string"),
    ("Personal access tokens", "string"),
    ("verification_code", "integer"),
    ("2fa_code", "string"),
    ("seed_phrase", "string"),
    ("cvv", "integer"),
    ("card_number", "string"),
]
HARMLESS = [
    ("max_tokens", "integer"),
    ("token_limit", "string"),
    ("seed", "integer"),
    ("pin", "boolean"),
    ("GPIO pin", "integer"),
    ("secret", "boolean"),
    ("Use 2FA", "boolean"),
    ("Secret Santa budget", "number"),
]


def form(name: str, kind: str, message: str = "Please fill this in.", **texts: str) -> dict[str, object]:
    return {"message": message, "requestedSchema": {"type": "object", "properties": {name: {"type": kind, **texts}}}}


@pytest.mark.parametrize(("name", "kind"), SECRETS)
def test_a_field_for_a_secret_is_recognized_by_its_name_and_by_its_title(name: str, kind: str) -> None:
    assert asks_for_secret(form(name, kind))
    assert asks_for_secret(form("value", kind, title=name))


@pytest.mark.parametrize(("name", "kind"), HARMLESS)
def test_a_harmless_field_gets_no_warning(name: str, kind: str) -> None:
    assert not asks_for_secret(form(name, kind))
    assert not asks_for_secret(form("value", kind, title=name))


def test_a_text_beside_a_harmless_field_counts_whatever_the_fields_type() -> None:
    assert not asks_for_secret(form("agreed", "boolean", description="You have read the terms."))
    assert asks_for_secret(form("agreed", "boolean", description="Write your token into the other field."))
    assert asks_for_secret(form("max_tokens", "integer", message="How many tokens? And what is your password?"))
