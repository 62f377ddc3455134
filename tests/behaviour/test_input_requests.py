"""What upstreams ask in the middle of a program: the host's user, model and folders answer, in both protocols on both
sides, or the configuration does. The product is in memory; the upstream is a real
process, and notes what it was told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from tests import fork_server

from .person import Person
from .product import UPSTREAMS, Answer, Host, configuration, in_memory

pytestmark = pytest.mark.slow

FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASK_CITY = {"method": "elicitation/create", "params": {"message": "Which city?", "requestedSchema": FORM}}
ASK_URL = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Sign in.", "url": "https://example.com/in", "elicitationId": "e1"},
}
HI = {"role": "user", "content": {"type": "text", "text": "Say hi."}}
SAMPLE: dict[str, Any] = {"method": "sampling/createMessage", "params": {"messages": [HI], "maxTokens": 50}}
ROOTS = {"method": "roots/list"}
ERAS = [(host, upstream) for host in ("legacy", "auto") for upstream in ("legacy", "modern")]
both_sides = pytest.mark.parametrize(("host_era", "era"), ERAS)
upstream_eras = pytest.mark.parametrize("era", ["legacy", "modern"])


def asking(folder: Path, era: str, **settings: Any) -> dict[str, Any]:
    upstream = fork_server.small_upstream(UPSTREAMS / "asking.py", era, str(folder / "asking.log"))
    return {"asking": upstream | settings}


async def ask(host: Host, *requests: dict[str, Any], **more: Any) -> Answer:
    return await host.run(f"from servers.asking import ask\nask(requests={list(requests)!r}, **{more!r})")


def told(folder: Path) -> list[Any]:
    """The answers that the upstream noted."""
    return [json.loads(line) for line in (folder / "asking.log").read_text().splitlines()]


@both_sides
async def test_the_hosts_user_fills_in_a_form_that_names_the_server(tmp_path: Path, host_era: str, era: str) -> None:
    person = Person(content={"city": "Oslo", "not asked for": "x"})
    path = configuration(tmp_path, asking(tmp_path, era))
    async with in_memory(path, mode=host_era, **person.callbacks) as host:
        answer = await ask(host, ASK_CITY)
    assert answer.value == [{"action": "accept", "content": {"city": "Oslo"}}]
    assert told(tmp_path) == answer.value
    (seen,) = person.seen
    assert seen.message.splitlines()[0] == "The MCP server 'asking' asks: Which city?"
    assert seen.requested_schema["properties"] == FORM["properties"]


@both_sides
async def test_an_address_a_model_and_folders_are_forwarded_too(tmp_path: Path, host_era: str, era: str) -> None:
    person = Person()
    path = configuration(tmp_path, asking(tmp_path, era))
    async with in_memory(path, mode=host_era, **person.callbacks) as host:
        opened, sampled, roots = (await ask(host, ASK_URL, SAMPLE, ROOTS)).value
    assert opened == {"action": "accept"}
    assert sampled["content"] == {"type": "text", "text": "the model's answer"}
    assert roots == {"roots": [{"uri": "file:///home/ada/work", "name": "work"}]}
    url, sampling, _ = person.seen
    assert url.url == "https://example.com/in"
    assert "'asking' asks: Sign in." in url.message
    assert sampling.system_prompt == "(This request comes from the MCP server 'asking'.)"


@both_sides
async def test_a_server_that_waits_for_the_host_holds_up_no_write_to_it(
    tmp_path: Path, host_era: str, era: str
) -> None:
    """Not of another person, nor of a program that the host runs before it answers, which would wait for itself."""
    meanwhile = list[Answer]()

    class Busy(Person):
        async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
            meanwhile.append(await ask(host))
            return await super().elicit(context, params)

    path = configuration(tmp_path, asking(tmp_path, era), limits={"input_seconds": 8})
    async with in_memory(path, mode=host_era, **Busy(content={"city": "Oslo"}).callbacks) as host:
        assert (await ask(host, ASK_CITY)).value == [{"action": "accept", "content": {"city": "Oslo"}}]
    assert [it.value for it in meanwhile] == [[]]


@upstream_eras
async def test_the_configuration_declines_refuses_and_gives_folders(tmp_path: Path, era: str) -> None:
    person = Person(content={"city": "Oslo"})
    server = asking(tmp_path, era, elicitation="decline", sampling="refuse", roots=[str(tmp_path)])
    async with in_memory(configuration(tmp_path, server), **person.callbacks) as host:
        form, roots = (await ask(host, ASK_CITY, ROOTS)).value
        refused = await ask(host, SAMPLE)
    assert form == {"action": "decline"}
    assert roots == {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]}
    assert "sampling is refused by the user" in refused.text
    assert person.seen == []


@pytest.mark.parametrize(("payloads", "has_values"), [("shapes", False), ("all", True)])
async def test_the_audit_has_what_was_asked_and_how_it_was_answered(
    tmp_path: Path, payloads: str, *, has_values: bool
) -> None:
    """Values of the answer are recorded only if `state.payloads` allows it."""
    state = {"dir": str(tmp_path / "state"), "payloads": payloads}
    path = configuration(tmp_path, asking(tmp_path, "legacy"), state=state)
    person = Person(content={"city": "Oslo"})
    async with App.open(load(path)) as app, Client(app.front, **person.callbacks) as client:
        await ask(Host(client, tmp_path), ASK_CITY)
        rows = await app.stores.audit.rows(app.principal)
    (event,) = [row.event for row in rows if row.event.kind == "input_requested"]
    assert (event.server, event.tool, event.reason, event.status) == ("asking", "ask", "elicitation", "accept")
    assert ("Oslo" in (event.payload or "")) is has_values
