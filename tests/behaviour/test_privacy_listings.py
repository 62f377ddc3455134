"""What a protected server says beside the results of its tools: listings have kinds in place of personal data, prompts,
resources and links have tokens, questions show no value, and the end of its stderr is for the person.

Without the section, the control, each has the value.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codemode_server.config import load
from codemode_server.startup.upstream_catalog import UpstreamCatalog
from tests.database import rows

from .person import Person
from .product import Host, configuration, in_memory, in_memory_for_all
from .test_input_requests import ask, asking
from .test_privacy_texts import files

pytestmark = pytest.mark.slow
both_ways = pytest.mark.parametrize("is_on", [True, False])

EMAIL = "ann.lee@example.org"
URI = f"crm://c/{EMAIL}"
SERVER = """
import json, sys
LOG = sys.argv[1]
EMAIL = "ann.lee@example.org"
SCHEMA = {"type": "object", "properties": {
    "account": {"type": "string", "enum": [EMAIL, "bob@example.org"], "description": "such as " + EMAIL}}}
LISTS = {
    "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "crm", "version": "1"},
                   "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "instructions": "Ask " + EMAIL + "."},
    "tools/list": {"tools": [{"name": "get", "description": "Accounts of " + EMAIL, "inputSchema": SCHEMA}]},
    "resources/list": {"resources": [{"uri": "crm://c/" + EMAIL, "name": EMAIL, "description": "mail of " + EMAIL},
                                     {"uri": "crm://c/bob@example.org", "name": ""}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "crm://of/{who}", "name": "of"}]},
    "prompts/list": {"prompts": [{"name": "p", "title": EMAIL, "description": "for " + EMAIL,
                                  "arguments": [{"name": "a", "description": EMAIL}]}]},
    "prompts/get": {"description": EMAIL, "messages": [{"role": "user", "content": {"type": "text", "text": EMAIL}}]},
    "tools/call": {"content": [{"type": "text", "text": EMAIL}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = LISTS.get(message["method"], {})
    if message["method"] == "resources/read":
        uri = message["params"]["uri"]
        open(LOG, "a").write(uri + "\\n")
        result = {"contents": [{"uri": uri, "text": "mail " + uri}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
CRASHING = f"import sys\nsys.exit('cannot sync the mailbox of {EMAIL}')\n"
LIST = "from servers.crm import resources\nresources.list()"


def crm(folder: Path, script: str = SERVER, *, is_on: bool = True, **privacy: Any) -> Path:
    (folder / "crm.py").write_text(script)
    server = {"command": sys.executable, "args": [str(folder / "crm.py"), str(folder / "read.log")]}
    settings = {"privacy": {"servers": {"crm": "tokens"}, **privacy}} if is_on else {}
    return configuration(folder, {"crm": server}, **settings)


def read(folder: Path) -> list[str]:
    log = folder / "read.log"
    return log.read_text().split() if log.exists() else []


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "servers": ("list_dir", {"path": "/servers"}),
    "resources": ("list_dir", {"path": "/servers/crm/resources"}),
    "stub": ("read_tool", {"path": "/servers/crm/get.py"}),
    "search": ("search_tools", {"query": "accounts mail"}),
    "listing": ("execute_code", {"code": LIST}),
    "source": ("execute_code", {"code": "from servers.crm import get\nget.__doc__"}),
}


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=[True, False])
async def listed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Host, bool]]:
    path = crm(tmp_path_factory.mktemp("listings"), is_on=request.param)
    async with in_memory_for_all(path) as host:
        yield host, request.param


@pytest.mark.asyncio(loop_scope="module")
async def test_no_listing_shows_personal_data_of_a_protected_server(listed: tuple[Host, bool]) -> None:
    host, is_on = listed
    shown = {way: (await host.call(tool, **arguments)).text for way, (tool, arguments) in WAYS.items()}
    shown["prompts"] = (await host.client.list_prompts()).model_dump_json()
    assert {way for way, text in shown.items() if "@example.org" in text or "ann.lee" in text} == (
        set() if is_on else set(WAYS) | {"prompts"}
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_prompt_has_tokens(listed: tuple[Host, bool]) -> None:
    host, is_on = listed
    given = await host.client.get_prompt("crm/p")
    assert (given.description, given.messages[0].content.text) == (("<EMAIL_1>" if is_on else EMAIL),) * 2  # type: ignore[union-attr]


async def shown_uri(host: Host) -> str:
    """The URI that stands for the real one."""
    (uri,) = [it["uri"] for it in (await host.run(LIST)).value if it["name"] == "EMAIL"]
    return str(uri)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_resource_is_read_by_the_uri_or_name_that_is_shown_and_has_tokens(listed: tuple[Host, bool]) -> None:
    host, is_on = listed
    names = ["EMAIL", await shown_uri(host)] if is_on else [URI]
    for named in names:
        answer = await host.run(f"from servers.crm import resources\nresources.read({named!r}).text")
        assert answer.value == ("mail crm://c/<EMAIL_1>" if is_on else f"mail {URI}")
    assert read(host.folder) == [URI] * len(names)


@both_ways
async def test_a_link_has_tokens_in_its_uri_and_is_read_as_what_it_is(tmp_path: Path, is_on: bool) -> None:
    link = {"type": "resource_link", "uri": URI, "name": EMAIL, "description": f"of {EMAIL}"}
    async with in_memory(files(tmp_path, link, mode="tokens" if is_on else None)) as host:
        answer = await host.run("from servers.files import get\nlink = get()\nprint(link.text)\n(link.uri, link.name)")
        shown = "<EMAIL_1>" if is_on else EMAIL
        assert answer.value == [f"crm://c/{shown}", shown]
        assert answer.content["stdout"] == f"read crm://c/{shown}\n"
    assert read(tmp_path) == [URI]


@both_ways
async def test_the_end_of_stderr_is_for_the_person_alone(tmp_path: Path, is_on: bool) -> None:
    async with in_memory(crm(tmp_path, CRASHING, is_on=is_on)) as host:
        shown = [
            (await host.call("list_dir", path="/servers")).text,
            (await host.call("search_tools", query="mailbox")).text,
            (await host.run("from servers.crm import get")).text,
        ]
        assert all("exited with code 1" in text for text in shown)
        assert [EMAIL in text for text in shown] == [not is_on, False, not is_on], "a search shows the exit code alone"


@both_ways
async def test_the_listing_of_a_server_is_stored_encrypted_and_known_at_the_next_start(
    tmp_path: Path, is_on: bool
) -> None:
    async with in_memory(crm(tmp_path, is_on=is_on)) as host:
        assert "get.py" in (await host.call("list_dir", path="/servers/crm")).text
    [(stored,)] = rows(tmp_path / "state", "SELECT value FROM cache WHERE kind = 'listings'")
    with pytest.raises(zlib.error):
        zlib.decompress(stored)
    crashing = crm(tmp_path, CRASHING, is_on=is_on)
    assert [it.name for it in UpstreamCatalog(load(crashing)).current().server("crm").tools] == ["get"]
    (tmp_path / "state" / "journal.key").write_bytes(bytes(32))
    assert bool(UpstreamCatalog(load(crashing)).current().server("crm").tools) is False, "the key is another one"


async def test_a_change_of_an_encrypted_definition_waits_for_the_person_also_without_the_key(tmp_path: Path) -> None:
    """Without the key, what was accepted can't be shown beside it. The listing before the change is the control."""
    for _ in range(2):
        async with in_memory(crm(tmp_path)):
            pass
    assert "no tool has changed" in reviewed(crm(tmp_path))
    (tmp_path / "state" / "journal.key").write_bytes(bytes(32))
    async with in_memory(crm(tmp_path, SERVER.replace("Accounts of", "All accounts of"))):
        pass
    other = reviewed(crm(tmp_path))
    assert "crm/get: changed" in other
    assert f"+All accounts of {EMAIL}" in other
    assert f"-Accounts of {EMAIL}" not in other


def reviewed(path: Path) -> str:
    """What the person sees of the tools that wait."""
    command = [sys.executable, "-m", "codemode_server", "tools", "review", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


FORM = {"type": "object", "properties": {"city": {"type": "string", "description": f"of {EMAIL}"}}}
ASK_FORM = {"method": "elicitation/create", "params": {"message": f"Is {EMAIL} right?", "requestedSchema": FORM}}
TEXT = {"type": "text", "text": f"write to {EMAIL}"}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 50},
}
ADDRESS = "https://example.com/in?login_hint="


def protected(server: str, *, is_on: bool) -> dict[str, Any]:
    return {"privacy": {"servers": {server: "tokens"}}} if is_on else {}


def to_open(url: str) -> dict[str, Any]:
    params = {"mode": "url", "message": f"Sign in as {EMAIL}.", "url": url, "elicitationId": "e1"}
    return {"method": "elicitation/create", "params": params}


@both_ways
async def test_a_form_and_a_request_for_a_model_have_tokens(tmp_path: Path, is_on: bool) -> None:
    person = Person(content={"city": "Oslo"})
    path = configuration(tmp_path, asking(tmp_path, "legacy"), **protected("asking", is_on=is_on))
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, ASK_FORM, SAMPLE)
    form, sampling = person.seen
    shown = "<EMAIL_1>" if is_on else EMAIL
    assert f"Is {shown} right?" in form.message
    assert form.requested_schema["properties"]["city"]["description"] == f"of {shown}"
    assert f"write to {shown}" in str(sampling.messages)
    assert (EMAIL in str(sampling.messages)) is not is_on


@pytest.mark.parametrize("era", ["legacy", "modern"])
@both_ways
async def test_an_address_with_personal_data_is_not_shown_to_the_host(
    tmp_path: Path, is_on: bool, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A token would lead nowhere in the person's browser, and some hosts show the address to their model."""
    person, urls = Person(), [ADDRESS + EMAIL, ADDRESS + EMAIL.replace("@", "%40")]
    path = configuration(tmp_path, asking(tmp_path, era), **protected("asking", is_on=is_on))
    why = "asking asks the user to open has personal data (email), so it is not shown to the host"
    async with in_memory(path, **person.callbacks) as host:
        for url in urls:
            assert (why in (await ask(host, to_open(url))).text) is is_on, "the model is told"
    assert [it.url for it in person.seen] == ([] if is_on else urls)
    assert ("privacy.allow in upstream.yaml" in caplog.text) is is_on, "the log tells the person what helps"


@both_ways
async def test_a_server_that_is_not_protected_shows_no_known_value_in_an_address(tmp_path: Path, is_on: bool) -> None:
    """It may have received it."""
    person, url = Person(), ADDRESS + EMAIL.replace("@", "%40")
    path = crm(tmp_path, is_on=is_on)
    settings = json.loads(path.read_text())
    settings["servers"] |= asking(tmp_path, "legacy")
    path.write_text(json.dumps(settings))
    async with in_memory(path, **person.callbacks) as host:
        await ask(host, to_open(url))
        await host.client.get_prompt("crm/p")
        await ask(host, to_open(url))
    assert [it.url for it in person.seen] == [url] * (1 if is_on else 2), "before there is a token it is unknown"
