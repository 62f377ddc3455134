"""Keys that read like names of fields may be shown; ids, credentials and sentences are data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codemode_server.support.field_names import is_declared_name, is_field_name, is_label
from tests.tables import tables

TABLES = tables(__file__)

NAMES = "id html_url createdAt XMLHttpRequest userIdURL x-request-id @type $ref address2 md5 IPv4Address größe 名前"
NAMES += " system_prompt prompt_tokens ignore_case user_message ignore_errors important follow_redirects assistant_id"
NAMES += " имя_файла όνομα"
NAMES += " approved_by_user user_approved_at ignore_warnings allowed_users"
NAMES += " hf_token hf_model_id sbp_mean bearer_token Bearer_Token bearer_methods_supported door_v1"
NAMES += " override permission_level custom_field_10010 sku_id skills ask_price"
NAMES += " always_on"
NAMES += " send_email_to forward_to email_token_id disk_io net_income site_org com_port xoxo_count"
LABELS = TABLES["labels"]
DATA = TABLES["data"]


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_of_a_field_is_one(name: str) -> None:
    """The positive control."""
    assert is_field_name(name)
    assert is_declared_name(name)


@pytest.mark.parametrize("label", LABELS)
def test_a_heading_of_a_column_is_a_label(label: str) -> None:
    assert is_label(label)


@pytest.mark.parametrize("kind", DATA)
def test_data_is_neither(kind: str) -> None:
    assert not is_field_name(DATA[kind])
    assert not is_label(DATA[kind])


@pytest.mark.parametrize("name", ["autoUpdatePullRequestsEnabled", "ConferenceRecordingStatusCallbackEvent"])
def test_a_declared_name_may_be_longer(name: str) -> None:
    assert is_declared_name(name)
    assert not is_field_name(name)


TOOLSETS = Path(__file__).parents[2] / "shared" / "toolsets"


def properties(schema: Any) -> Iterator[str]:
    """Keys of what some published tools declare, at any depth."""
    if isinstance(schema, dict):
        declared = schema.get("properties")
        yield from declared if isinstance(declared, dict) else ()
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from properties(part)


@pytest.mark.skipif(not TOOLSETS.exists(), reason=f"no published toolsets in {TOOLSETS}")
def test_of_the_names_in_published_tools_few_are_taken_for_data() -> None:
    declared = {key for file in TOOLSETS.glob("*.json") for key in properties(json.loads(file.read_text()))}
    assert len(declared) > 2_000
    assert sum(not is_field_name(key) for key in declared) < 0.02 * len(declared)
