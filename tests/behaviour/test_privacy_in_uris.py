"""A program that sees values can put one into the URI of a resource: it goes only to servers that may receive the kind.

What the server itself has listed or linked to is read as before: it knows those values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .person import Person
from .product import in_memory
from .test_privacy_listings import EMAIL, SERVER, URI, crm, shown_uris

pytestmark = pytest.mark.slow

TEMPLATED = SERVER.replace(
    '{"resourceTemplates": []}', '{"resourceTemplates": [{"uriTemplate": "crm://of/{who}", "name": "of"}]}'
).replace('{"type": "text", "text": "ok"}', '{"type": "text", "text": EMAIL}')
LINKING = TEMPLATED.replace(
    '{"type": "text", "text": EMAIL}', '{"type": "resource_link", "uri": "crm://d/" + EMAIL, "name": "d"}'
)
GET = "from servers.crm import get, resources\nit = get()\n"
WAYS = {
    "as it is": GET + "resources.read('of', who=it)",
    "within a URI": GET + "from urllib.parse import quote\nresources.read(f'crm://of/{quote(it)}')",
}


def product(folder: Path, script: str = TEMPLATED, **privacy: Any) -> Path:
    path = crm(folder, script)
    settings = json.loads(path.read_text())
    settings["privacy"] |= {"programs": "values", **privacy}
    path.write_text(json.dumps(settings))
    return path


def read(folder: Path) -> list[str]:
    log = folder / "read.log"
    return log.read_text().split() if log.exists() else []


@pytest.mark.parametrize("way", WAYS)
async def test_a_value_in_a_uri_goes_only_where_its_kind_may_go(tmp_path: Path, way: str) -> None:
    async with in_memory(product(tmp_path)) as host:
        refused = await host.run(WAYS[way])
        assert "may not receive personal data of the kind email" in refused.text
        assert "<EMAIL_1>" in refused.text
        assert read(tmp_path) == []
    async with in_memory(product(tmp_path, release={"crm": ["email"]})) as host:
        assert (await host.run(WAYS[way])).content["status"] == "succeeded"
        assert len(read(tmp_path)) == 1, "the control"


@pytest.mark.parametrize(("answer", "count"), [("Allow this call", 1), ("Refuse", 0)])
async def test_the_person_may_be_asked_about_a_value_in_a_uri(tmp_path: Path, answer: str, count: int) -> None:
    person = Person(content={"answer": answer})
    async with in_memory(product(tmp_path, on_release="ask"), **person.callbacks) as host:
        await host.run(WAYS["as it is"])
    assert "the program passes the value of <EMAIL_1> (email) itself, in another form" in person.seen[0].message
    assert len(read(tmp_path)) == count


async def test_a_listed_resource_is_read_whatever_its_uri_has(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(GET + f"resources.read({(await shown_uris(host))['EMAIL']!r}).text")
        assert answer.value == "mail crm://c/<EMAIL_1>"
    assert read(tmp_path) == [URI]


async def test_a_linked_resource_is_read_by_the_uri_that_the_program_sees(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path, LINKING)) as host:
        read_both = "[link.text, resources.read(link.uri).text]"
        answer = await host.run(f"from servers.crm import get, resources\nlink = get()\n{read_both}")
        assert answer.value == ["mail crm://d/<EMAIL_1>"] * 2
    assert read(tmp_path) == [f"crm://d/{EMAIL}"] * 2


async def test_other_texts_in_a_uri_go_anywhere(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path)) as host:
        assert (await host.run(GET + "resources.read('of', who='nobody').text")).value == "mail crm://of/nobody"
