"""The first answers over stdio, given before the MCP library is imported: the same as the server would give, in every
era of the protocol; and the server that takes over knows the session. Raw lines to a real child process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.mcp_server.opening import HANDSHAKE_VERSIONS, MODERN_VERSION, FirstLists
from codemode_server.startup.first_lists import forget, store, stored
from tests.behaviour.product import configuration, office
from tests.wire import Wire

pytestmark = pytest.mark.slow

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
UNUSUAL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
"""Ends the opening: all that follows is answered by the server."""


@contextmanager
def product(path: Path, *interpreter: str) -> Iterator[Wire]:
    command = [sys.executable, *(interpreter or ("-m", "codemode_server")), "--config", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        wire = Wire(process)
        yield wire
        assert wire.others == [], "each answer is the very next line"
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def test_all_versions_of_the_protocol_that_the_library_speaks_are_known() -> None:
    assert (HANDSHAKE_VERSIONS, (MODERN_VERSION,)) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)


def test_nothing_of_the_mcp_library_the_configuration_and_the_database_is_needed_for_the_first_answers() -> None:
    """They take most of a start, and Codex goes on without tools that are not there after a second."""
    code = """
import sys, codemode_server.startup.serve
from codemode_server.startup.first_lists import forget, stored
stored(None)
print(*sys.modules)"""
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"mcp", "mcp_types", "numpy", "pydantic", "ruamel.yaml", "sqlite3"} & set(modules) == set()
    assert not [it for it in modules if it.startswith("codemode_server.catalog")]


def test_the_lists_of_a_first_start_need_nothing_of_the_mcp_library(tmp_path: Path) -> None:
    code = """
import pathlib, sys
from codemode_server.startup.serve import _Start
print(len(_Start(pathlib.Path(sys.argv[1])).lists().tools), "mcp" in sys.modules)"""
    path = configuration(tmp_path, office(tmp_path, "slack"))
    assert subprocess.check_output([sys.executable, "-c", code, str(path)], text=True).split() == ["4", "False"]


@pytest.mark.parametrize("version", [HANDSHAKE_VERSIONS[0], HANDSHAKE_VERSIONS[-1]])
def test_a_session_that_begins_with_a_handshake_goes_on_at_the_server(tmp_path: Path, version: str) -> None:
    path = configuration(tmp_path, office(tmp_path, "slack"))
    with product(path) as wire:
        first = [wire.initialize(version), wire.ask("ping"), wire.ask("tools/list")]
        later = [wire.ask("ping"), wire.ask("tools/list")]
        called = wire.ask("tools/call", name="list_dir", arguments={"path": "/servers"})
    with product(path) as wire:
        wire.send(UNUSUAL)
        of_server = wire.initialize(version)
    assert first[0] == of_server
    assert [answer["result"] for answer in first[1:]] == [answer["result"] for answer in later]
    assert "servers.slack" in first[2]["result"]["tools"][3]["description"]
    assert "slack" in called["result"]["content"][0]["text"]


def test_a_session_of_the_newest_protocol_goes_on_at_the_server(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "slack"))
    with product(path) as wire:
        first = [wire.ask("server/discover", _meta=META), wire.ask("tools/list", _meta=META)]
        later = [wire.ask("server/discover", _meta=META), wire.ask("tools/list", _meta=META)]
        called = wire.ask("tools/call", name="list_dir", arguments={"path": "/servers"}, _meta=META)
        refused = wire.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
    assert [answer["result"] for answer in first] == [answer["result"] for answer in later]
    assert "slack" in called["result"]["content"][0]["text"]
    assert refused["error"]["code"] == -32022, "the era is settled by the first request"


LOGS_WHAT_IT_READS = """
import sys, threading
log = open(sys.argv.pop(1), "a", buffering=1)
def hook(event, arguments):
    watched = {"open": "upstream.yaml", "sqlite3.connect": "codemode.db"}.get(event)
    if watched and str(arguments[0]).endswith(watched) and arguments[1:2] != (None,):  # `os.open` in `open`
        is_main = threading.current_thread() is threading.main_thread()
        print(str(arguments[0]).rpartition("/")[2], "the event loop" if is_main else "a thread", sep=" in ", file=log)
sys.addaudithook(hook)
from codemode_server.__main__ import main
main()
"""


def test_the_first_list_is_what_the_last_run_wrote_for_this_configuration(tmp_path: Path) -> None:
    """It is there before the product, which is not even loaded yet; an edit makes it void."""
    path = configuration(tmp_path, office(tmp_path, "slack"))
    lists = []
    for _ in range(2):
        with product(path) as wire:
            wire.initialize(HANDSHAKE_VERSIONS[-1])
            lists.append(wire.ask("tools/list")["result"]["tools"])
            wire.ask("tools/call", name="list_dir", arguments={"path": "/servers/slack"})
    assert stored(path) == FirstLists(lists[1])
    before = path.read_text()
    path.write_text(before + "# edited")
    assert stored(path) is None
    path.write_text(before)
    assert stored(path) is not None, "the control"
    forget(load(path))
    assert stored(path) is None, "the person has accepted a changed tool"


async def test_a_stored_list_is_only_for_the_variables_and_for_what_was_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would have output schemas, for instance, where the next run gives no structured content."""
    path = configuration(tmp_path, office(tmp_path, "slack"), limits={"calls": "${MOST:-7}"})
    async with App.open(load(path)) as app:
        await store(app)
        assert stored(path) is not None, "the control"
        with monkeypatch.context() as environment:
            environment.setenv("MOST", "8")
            assert stored(path) is None
        for added, is_stored in (({"limits": {"calls": 8}}, True), ({"results": {"structured_content": False}}, False)):
            path.write_text(json.dumps(json.loads(path.read_text()) | added))
            await app.takeover._take_over(load(path), is_microvm=False)
            await store(app)
            assert (stored(path) is not None) == is_stored, added


def test_configuration_and_database_are_read_not_on_the_event_loop(tmp_path: Path) -> None:
    """On a slow disk each reading delays the first call, and on the event loop every other answer as well."""
    path, log = configuration(tmp_path, office(tmp_path, "slack")), tmp_path / "reads.log"
    with product(path, "-c", LOGS_WHAT_IT_READS, str(log)) as wire:
        wire.send(UNUSUAL)
        wire.initialize(HANDSHAKE_VERSIONS[-1])
        called = wire.ask("tools/call", name="list_dir", arguments={"path": "/servers"})
    assert "slack" in called["result"]["content"][0]["text"]
    # The upkeep and the first write, of what a server listed, may open the database by now, each in its thread.
    reads, later = ["upstream.yaml in a thread", "codemode.db in a thread"], ["codemode.db in a thread"]
    assert log.read_text().splitlines() in (reads, reads + later, reads + 2 * later)
