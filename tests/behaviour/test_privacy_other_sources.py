"""What a protected server says beside results: log messages, proposals, questions, prompts, resources and links.

Each has its control: without the section it has the value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .person import Person
from .product import configuration, in_memory
from .test_input_requests import ask, asking
from .test_privacy_files import files
from .test_privacy_listings import EMAIL, SERVER, URI, crm, shown_uris

both_ways = pytest.mark.parametrize("is_on", [True, False])


def protected(server: str, *, is_on: bool) -> dict[str, Any]:
    return {"privacy": {"servers": {server: "tokens"}}} if is_on else {}


@both_ways
async def test_a_form_has_tokens_in_its_text_and_its_fields(tmp_path: Path, is_on: bool) -> None:
    person = Person(content={"city": "Oslo"})
    form = {"type": "object", "properties": {"city": {"type": "string", "description": f"of {EMAIL}"}}}
    question = {"method": "elicitation/create", "params": {"message": f"Is {EMAIL} right?", "requestedSchema": form}}
    path = configuration(tmp_path, asking(tmp_path, "legacy"), **protected("asking", is_on=is_on))
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, question)
    (seen,) = person.seen
    shown = "<EMAIL_1>" if is_on else EMAIL
    assert f"Is {shown} right?" in seen.message
    assert seen.requested_schema["properties"]["city"]["description"] == f"of {shown}"


async def test_that_a_question_is_withheld_is_not_said_of_the_result(tmp_path: Path) -> None:
    """Two addresses are more than one server gets of two tokens; the call goes on."""
    person = Person(content={"city": "Oslo"})
    form = {"type": "object", "properties": {"city": {"type": "string"}}}
    texts = f"Is {EMAIL} right?", f"Is {EMAIL} right, or b@example.org, or c@example.org?"
    asked = [{"method": "elicitation/create", "params": {"message": it, "requestedSchema": form}} for it in texts]
    privacy = {"privacy": {"servers": {"asking": "tokens"}, "max_tokens": 2}}
    async with in_memory(configuration(tmp_path, asking(tmp_path, "legacy"), **privacy), **person.callbacks) as host:
        answer = await ask(host, *asked)
    assert [it.message.count("<EMAIL_1>") for it in person.seen] == [1], "the control: there is room for the first"
    told = (tmp_path / "asking.log").read_text() + answer.text
    assert "what asking asks is withheld: 2 of its values need new privacy tokens" in told
    assert "was called, and its result is withheld" not in told


@both_ways
async def test_a_prompt_has_tokens(tmp_path: Path, is_on: bool) -> None:
    async with in_memory(crm(tmp_path, SERVER, is_on=is_on)) as host:
        given = await host.client.get_prompt("crm/p")
        assert (given.description, given.messages[0].content.text) == (("<EMAIL_1>" if is_on else EMAIL),) * 2  # type: ignore[union-attr]


@both_ways
async def test_a_resource_has_tokens(tmp_path: Path, is_on: bool) -> None:
    async with in_memory(crm(tmp_path, is_on=is_on)) as host:
        uri = (await shown_uris(host))["EMAIL"] if is_on else URI
        answer = await host.run(f"from servers.crm import resources\nresources.read({uri!r}).text")
        assert answer.value == ("mail crm://c/<EMAIL_1>" if is_on else f"mail {URI}")


@both_ways
async def test_a_link_has_tokens_in_its_uri_and_is_read_as_what_it_is(tmp_path: Path, is_on: bool) -> None:
    link = {"type": "resource_link", "uri": URI, "name": EMAIL, "description": f"of {EMAIL}"}
    async with in_memory(files(tmp_path, link, mode="tokens" if is_on else None)) as host:
        answer = await host.run("from servers.files import get\nlink = get()\nprint(link.text)\n(link.uri, link.name)")
        shown = "<EMAIL_1>" if is_on else EMAIL
        assert answer.value == [f"crm://c/{shown}", shown]
        assert answer.content["stdout"] == f"read crm://c/{shown}\n"
    assert (tmp_path / "read.log").read_text().split() == [URI]
