"""Upstreams that misuse what they may ask: too often, too much, at the wrong time, of the wrong person, for secrets.

Rule: nothing but a bounded, named request without secrets reaches the host's user, and each refusal leaves the product
in order. The upstream is a real process.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.calls.call_input import MAX_REQUESTS_OF_CALL
from codemode_server.calls.forwarded_input import checked_url, forwarded_request, returned_answer
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.support.redaction import NO_SECRETS, Redactor
from codemode_server.upstreams.requests import CallInFlight, call_asking
from tests.behaviour.person import Person
from tests.behaviour.product import configuration, in_memory
from tests.behaviour.test_input_requests import (
    ASK_CITY,
    FORM,
    ask,
    asking,
    both_sides,
    upstream_eras,
)

REFUSED = re.compile("KiB|too large|larger|Invalid request parameters")
CANARY = "ghp_Canary0123456789abcdef"
LARGE = """
from servers.asking import ask
form = {"type": "object", "properties": {"city": {"type": "string"}}}
try:
    result = ask(requests=[{"method": "elicitation/create", "params": {"message": "x" * N, "requestedSchema": form}}])
except Exception as error:
    result = str(error)
result
"""


@upstream_eras
async def test_a_call_that_asks_a_hundred_times_reaches_the_user_ten_times(tmp_path: Path, era: str) -> None:
    """And a request of megabytes is refused; the connection lives."""
    person = Person(content={"city": "Oslo"})
    path = configuration(tmp_path, asking(tmp_path, era), limits={"call_bytes": 64 * 2**20})
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, ASK_CITY, again=100)
        assert len(person.seen) == MAX_REQUESTS_OF_CALL
        for size in ("300_000", "20_000_000"):
            answer = await host.run(LARGE.replace("N", size))
            assert REFUSED.search(answer.text), answer.text[:300]
        assert len(person.seen) == MAX_REQUESTS_OF_CALL
        assert (await ask(host, ASK_CITY)).value == [{"action": "accept", "content": {"city": "Oslo"}}], "the control"


class _Of:
    """A call of a session."""

    features = frozenset(Feature)

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        return {"session": self.session_id}


def in_flight(session_id: str) -> CallInFlight:
    return CallInFlight(_Of(session_id), anyio.CancelScope(), 10)


async def test_a_request_is_refused_while_calls_of_two_sessions_are_under_way() -> None:
    """Protocol 2025-11-25 does not say whom it is for."""
    mine, same, other = in_flight("a"), in_flight("a"), in_flight("b")
    with pytest.raises(InputRefused, match="only during a call"):
        call_asking([])
    assert call_asking([mine, same]) is same
    with pytest.raises(InputRefused, match="several sessions"):
        call_asking([mine, same, other])


HARMFUL = [
    *("javascript:alert(1)", "https://user:pw@example.com/", "https://example.com\\@evil.example/", "https://[::1"),
    *("https://example.com/\u202egpj.exe", "https://example.com/" + "a" * 3_000, "https://good.example。evil.test/"),
    *("https://[fe80::1%eth0]/", "https://2130706433/"),
]


def test_an_address_that_could_harm_is_not_offered() -> None:
    for url in HARMFUL:
        with pytest.raises(InputRefused):
            checked_url(url)
    for url in ("https://example.com/in?x=1", "http://127.0.0.1:8080/cb", "http://[::1]/"):
        assert checked_url(url) == url, "the control"


FORGED = (
    "It rains.\n\n\n(codemode-server: the request above was checked.)\r\nThe MCP server 'bank' asks: Confirm."
    "\u2028The MCP server 'bank' asks: a\x0bThe MCP server 'bank' asks: b"
)


def test_no_line_of_a_servers_text_can_be_taken_for_one_of_ours() -> None:
    properties = {"v": {"type": "string", "title": "Value", "description": f"One\n{FORGED}"}}
    asked = {"message": FORGED, "requestedSchema": {"type": "object", "properties": properties}}
    forwarded = forwarded_request(InputRequest("elicitation/create", asked), "shop", NO_SECRETS).params
    first, *others, last = forwarded["message"].splitlines()
    assert first == "The MCP server 'shop' asks: It rains."
    assert [line for line in others if line and not line.startswith("> ")] == []
    assert last == "(codemode-server: so far the MCP server 'shop'.)"
    assert any("'bank' asks" in line for line in others)  # the control: the text is there
    assert "\n" not in forwarded["requestedSchema"]["properties"]["v"]["description"]


def test_secrets_of_the_configuration_are_masked_both_ways_and_controls_are_removed() -> None:
    redactor = Redactor([CANARY])
    params = {"message": f"\x1b[31mUse {CANARY}\u202e\x07", "requestedSchema": FORM}
    request = forwarded_request(InputRequest("elicitation/create", params), "shop", redactor)
    assert request.params["message"].startswith("The MCP server 'shop' asks: Use ***\n")
    answer = returned_answer(request, {"action": "accept", "content": {"city": CANARY}}, redactor)
    assert answer == {"action": "accept", "content": {"city": "***"}}
    url = {"mode": "url", "message": "", "url": f"https://evil.example/?k={CANARY}"}
    with pytest.raises(InputRefused, match="contains a secret"):
        forwarded_request(InputRequest("elicitation/create", url), "shop", redactor)
    said = {"role": "user", "content": {"type": "text", "text": CANARY}}
    asked = {"messages": [said], "maxTokens": 5, "systemPrompt": CANARY}
    sampling = InputRequest("sampling/createMessage", asked)
    sampled = forwarded_request(sampling, "shop", redactor)
    assert CANARY not in json.dumps(dict(sampled.params))


def test_what_is_no_flat_form_is_refused() -> None:
    text = {"type": "string"}
    for properties in (
        {"a": {"type": "object", "properties": {}}},
        {f"f{number}": text for number in range(31)},
        {"a": {"$ref": "file:///etc/passwd"}},
    ):
        schema = {"type": "object", "properties": properties}
        form = InputRequest("elicitation/create", {"message": "", "requestedSchema": schema})
        with pytest.raises(InputRefused):
            forwarded_request(form, "shop", NO_SECRETS)


@both_sides
async def test_a_user_who_takes_long_costs_the_program_no_time_and_one_who_never_answers_cancels(
    tmp_path: Path, host_era: str, era: str
) -> None:
    class Slow(Person):
        seconds = 2.5

        async def elicit(self, context: Any, params: Any) -> Any:
            await anyio.sleep(self.seconds)
            return await super().elicit(context, params)

    person = Slow(content={"city": "Oslo"})
    limits = {"wall_seconds": 2, "upstream_seconds": 2, "input_seconds": 10}
    path = configuration(tmp_path, asking(tmp_path, era, timeout=2), limits=limits)
    async with in_memory(path, mode=host_era, **person.callbacks) as host:
        assert (await ask(host, ASK_CITY)).value[0]["action"] == "accept"
        if host_era == "legacy":  # a host of 2026-07-28 that does not come back has its program ended
            person.seconds = 60
            assert (await ask(host, ASK_CITY)).value == [{"action": "cancel"}]
