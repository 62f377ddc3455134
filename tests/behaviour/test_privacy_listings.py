"""What a protected server says of itself: listings have kinds in place of personal data, and the end of its stderr is
for the person."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from codemode_server.config import load
from codemode_server.first_listing import LastRun

from .product import Host, configuration, in_memory

pytestmark = pytest.mark.slow

EMAIL = "ann.lee@example.org"
URI = f"crm://c/{EMAIL}"
SERVER = """
import json, sys
LOG = sys.argv[1]
EMAIL = "ann.lee@example.org"
SCHEMA = {"type": "object", "properties": {
    "account": {"type": "string", "enum": [EMAIL, "bob@example.org"], "description": "such as " + EMAIL},
    "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"}}}
LISTS = {
    "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "crm", "version": "1"},
                   "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "instructions": "Ask " + EMAIL + "."},
    "tools/list": {"tools": [{"name": "get", "description": "Accounts of " + EMAIL, "inputSchema": SCHEMA}]},
    "resources/list": {"resources": [{"uri": "crm://c/" + EMAIL, "name": EMAIL, "description": "mail of " + EMAIL},
                                     {"uri": "crm://c/bob@example.org", "name": ""}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": [{"name": "p", "title": EMAIL, "description": "for " + EMAIL,
                                  "arguments": [{"name": "a", "description": EMAIL}]}]},
    "prompts/get": {"description": EMAIL, "messages": [{"role": "user", "content": {"type": "text", "text": EMAIL}}]},
    "tools/call": {"content": [{"type": "text", "text": "ok"}]},
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


def crm(folder: Path, script: str = SERVER, *, is_on: bool = True, **settings: Any) -> Path:
    (folder / "crm.py").write_text(script)
    server = {"command": sys.executable, "args": [str(folder / "crm.py"), str(folder / "read.log")]}
    privacy = {"privacy": {"servers": {"crm": "tokens"}}} if is_on else {}
    return configuration(folder, {"crm": server}, **privacy, **settings)


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "servers": ("list_dir", {"path": "/servers"}),
    "resources": ("list_dir", {"path": "/servers/crm/resources"}),
    "stub": ("read_tool", {"path": "/servers/crm/get.py"}),
    "search": ("search_tools", {"query": "accounts mail"}),
    "listing": ("execute_code", {"code": "from servers.crm import resources\nresources.list()"}),
    "source": ("execute_code", {"code": "from servers.crm import get\nget.__doc__"}),
}


@pytest.mark.parametrize("is_on", [True, False])
async def test_no_listing_shows_personal_data_of_a_protected_server(tmp_path: Path, is_on: bool) -> None:
    """Without the section, the control, each does."""
    async with in_memory(crm(tmp_path, is_on=is_on)) as host:
        shown = {way: (await host.call(tool, **arguments)).text for way, (tool, arguments) in WAYS.items()}
        shown["prompts"] = (await host.client.list_prompts()).model_dump_json()
    assert {way for way, text in shown.items() if "@example.org" in text or "ann.lee" in text} == (
        set() if is_on else set(WAYS) | {"prompts"}
    )


async def test_a_schema_has_no_enumeration_that_nobody_can_read(tmp_path: Path) -> None:
    async with in_memory(crm(tmp_path)) as host:
        stub = (await host.call("read_tool", path="/servers/crm/get.py")).text
        assert "account: str = ..." in stub
        assert "such as <EMAIL>" in stub
        assert "Literal['fast', 'slow']" in stub.replace('"', "'"), "the control"


async def shown_uris(host: Host) -> dict[str, str]:
    """Names → the URIs that stand for the real ones."""
    listed = (await host.run("from servers.crm import resources\nresources.list()")).value
    return {it["name"]: it["uri"] for it in listed}


@pytest.mark.parametrize("by", ["name", "URI"])
async def test_a_resource_is_read_by_the_uri_or_name_that_is_shown(tmp_path: Path, by: str) -> None:
    async with in_memory(crm(tmp_path)) as host:
        uris = await shown_uris(host)
        named = uris["EMAIL"] if by == "URI" else "EMAIL"
        code = f"from servers.crm import resources\nresources.read({named!r}).text"
        answer = await host.run(code)
        assert answer.value == "mail crm://c/<EMAIL_1>"
        assert "@example.org" not in answer.text
    assert (tmp_path / "read.log").read_text().split() == [URI]


async def test_a_rule_means_the_uri_that_is_read(tmp_path: Path) -> None:
    rules = {"rules": [{"deny": f"crm/resources/{URI}"}]}
    code = "from servers.crm import resources\nresources.read({!r})"
    async with in_memory(crm(tmp_path, permissions=rules)) as host:
        ann, bob = sorted((await shown_uris(host)).items())
        await host.run(code.format(bob[1]))
        assert (tmp_path / "read.log").read_text().split() == ["crm://c/bob@example.org"], "the control"
        assert "not permitted" in (await host.run(code.format(ann[1]))).text
    assert (tmp_path / "read.log").read_text().split() == ["crm://c/bob@example.org"]


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_end_of_stderr_is_for_the_person_alone(tmp_path: Path, is_on: bool) -> None:
    async with in_memory(crm(tmp_path, CRASHING, is_on=is_on)) as host:
        shown = [
            (await host.call("list_dir", path="/servers")).text,
            (await host.call("search_tools", query="mailbox")).text,
            (await host.run("from servers.crm import get")).text,
        ]
        assert all("exited with code 1" in text for text in shown)
        assert [EMAIL in text for text in shown] == [not is_on] * 3


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_listing_of_a_protected_server_is_stored_encrypted_and_known_at_the_next_start(
    tmp_path: Path, is_on: bool
) -> None:
    """Without the section, the control, it is stored as it is."""
    async with in_memory(crm(tmp_path, is_on=is_on)) as host:
        await host.settled()
        assert "get.py" in (await host.call("list_dir", path="/servers/crm")).text
    holding = {it.name for it in (tmp_path / "state").iterdir() if it.is_file() and EMAIL.encode() in it.read_bytes()}
    assert holding == (set() if is_on else {"codemode.db"})
    crashing = crm(tmp_path, CRASHING, is_on=is_on)
    assert [it.name for it in LastRun.read(load(crashing)).catalog.server("crm").tools] == ["get"]
    (tmp_path / "state" / "privacy.key").write_bytes(bytes(32))
    assert bool(LastRun.read(load(crashing)).catalog.server("crm").tools) is not is_on, "the key is another one"


@pytest.mark.parametrize("has_key", [True, False])
async def test_a_change_of_an_encrypted_definition_waits_for_the_person_also_without_the_key(
    tmp_path: Path, has_key: bool
) -> None:
    """Without the key, what was accepted can't be shown beside it. The listing before the change is the control."""
    async with in_memory(crm(tmp_path)) as host:
        await host.settled()
    if not has_key:
        (tmp_path / "state" / "privacy.key").write_bytes(bytes(32))
    async with in_memory(crm(tmp_path)) as host:
        await host.settled()
    same = reviewed(crm(tmp_path))
    async with in_memory(crm(tmp_path, SERVER.replace("Accounts of", "All accounts of"))) as host:
        await host.settled()
    other = reviewed(crm(tmp_path))
    assert "no tool has changed" in same
    assert "crm/get: changed" in other
    assert f"+All accounts of {EMAIL}" in other
    assert (f"-Accounts of {EMAIL}" in other) is has_key


def reviewed(path: Path) -> str:
    """What the person sees of the tools that wait."""
    command = [sys.executable, "-m", "codemode_server", "tools", "review", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def readable_definitions(folder: Path) -> list[str]:
    """The stored texts that need no key."""
    with closing(sqlite3.connect(folder / "state" / "codemode.db")) as database:
        rows = database.execute("SELECT definition FROM tool_definitions").fetchall()
    assert rows, "definitions are stored"
    found: list[str] = []
    for (data,) in rows:
        with suppress(zlib.error):
            found.append(zlib.decompress(data).decode())
    return found
