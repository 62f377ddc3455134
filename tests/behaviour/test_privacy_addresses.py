"""Addresses that a server asks the person to open: the host gets none with personal data, and is told no known value.

Upstreams and hosts are real. Each refusal has a control that shows the same address.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .person import Person
from .product import configuration, in_memory
from .test_input_requests import ask, asking
from .test_privacy_listings import EMAIL, SERVER
from .test_privacy_other_sources import both_ways, protected

pytestmark = pytest.mark.slow

ADDRESS = "https://example.com/in?login_hint="


def to_open(url: str) -> dict[str, Any]:
    params = {"mode": "url", "message": f"Sign in as {EMAIL}.", "url": url, "elicitationId": "e1"}
    return {"method": "elicitation/create", "params": params}


@pytest.mark.parametrize("shown", [EMAIL, EMAIL.replace("@", "%40")])
@pytest.mark.parametrize("era", ["legacy", "modern"])
@both_ways
async def test_an_address_with_personal_data_is_not_shown_to_the_host(
    tmp_path: Path, is_on: bool, era: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A token would lead nowhere in the person's browser, and some hosts show the address to their model."""
    person = Person()
    path = configuration(tmp_path, asking(tmp_path, era), **protected("asking", is_on=is_on))
    async with in_memory(path, **person.callbacks) as host:
        answer = await ask(host, to_open(ADDRESS + shown))
    why = "asking asks the user to open has personal data (email), so it is not shown to the host"
    assert [it.url for it in person.seen] == ([] if is_on else [ADDRESS + shown])
    assert (why in answer.text) is is_on, "the model is told"
    assert ("privacy.allow in upstream.yaml" in caplog.text) is is_on, "the log tells the person what helps"


@pytest.mark.parametrize("allowed", [[], [EMAIL]])
async def test_an_address_that_the_person_allows_is_shown_as_it_is(tmp_path: Path, allowed: list[str]) -> None:
    """That holds for a value that had a token before. A token in an address stays: it is of the server."""
    person, url = Person(), f"{ADDRESS}{EMAIL}&to=%3CEMAIL_1%3E"
    path = configuration(tmp_path, asking(tmp_path, "legacy"), **protected("asking", is_on=True))
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, to_open(ADDRESS + EMAIL))
    assert person.seen == []
    settings = {"servers": {"asking": "tokens"}, "allow": allowed}
    path = configuration(tmp_path, asking(tmp_path, "legacy"), privacy=settings)
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, to_open(url))
    assert [it.url for it in person.seen] == [url] * len(allowed)


@both_ways
async def test_a_server_that_is_not_protected_shows_no_known_value_in_an_address(tmp_path: Path, is_on: bool) -> None:
    """It may have received it."""
    person, url = Person(), ADDRESS + EMAIL.replace("@", "%40")
    script = tmp_path / "crm.py"
    script.write_text(SERVER)
    servers = asking(tmp_path, "legacy") | {
        "crm": {"command": sys.executable, "args": [str(script), str(tmp_path / "read.log")]}
    }
    path = configuration(tmp_path, servers, **protected("crm", is_on=is_on))
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, to_open(url))
        await host.client.get_prompt("crm/p")
        await ask(host, to_open(url))
    assert [it.url for it in person.seen] == [url] * (1 if is_on else 2), "before there is a token it is unknown"
