"""The snapshot: what it takes from listings, what it looks up, and what passes from one snapshot to the next."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from tests.work import lines_run


def listing(name: str, *tools: str, state: UpstreamState = UpstreamState.READY, **more: Any) -> UpstreamListing:
    return UpstreamListing(name, state, tuple(ToolDefinition(tool, f"Does {tool}.") for tool in tools), **more)


def test_servers_and_tools_are_found_by_python_name_and_by_raw_name() -> None:
    catalog = Catalog.build([listing("google-drive", "get-document"), listing("github", "create_issue")])
    assert [server.name for server in catalog.servers] == ["github", "google_drive"]
    assert catalog.server("google-drive") is catalog.server("google_drive")
    assert catalog.tool("google-drive", "get-document") is catalog.tool("google_drive", "get_document")
    assert catalog.tool("google_drive", "get_document").import_line == "from servers.google_drive import get_document"


@pytest.mark.parametrize(
    ("server", "tool", "message"),
    [
        ("githib", "x", 'no server "githib"; nearest: github'),
        ("x", "x", 'no server "x"; there are: again, empty, files, github, off, sheets, slow'),
        ("github", "create_isue", 'no tool "create_isue" in servers.github; nearest: create_issue'),
        ("github", "zzz", 'no tool "zzz" in servers.github; there are: close_pull, create_issue'),
        ("github", "update_issue", 'no tool "update_issue" in servers.github; nearest: create_issue'),
        ("github", "delete_issue", 'no tool "delete_issue" in servers.github; there are: close_pull, create_issue'),
        ("files", "delete_file", 'no tool "delete_file" in servers.files; search_tools finds tools by what they do'),
        ("files", "add_file", 'no tool "add_file" in servers.files; nearest: edit_file, writeFile'),
        ("files", "get_file", 'no tool "get_file" in servers.files; nearest: file_read'),
        ("files", "open_file", 'no tool "open_file" in servers.files; nearest: edit_file, file_read, writeFile'),
        ("files", "get_entity", 'no tool "get_entity" in servers.files; nearest: list_entities'),
        ("sheets", "list_sheets", 'no tool "list_sheets" in servers.sheets; nearest: list_workbooks'),
        ("files", "bile", 'no tool "bile" in servers.files; search_tools finds tools by what they do'),
        ("files", "delFolder", 'no tool "delFolder" in servers.files; nearest: list_folders'),
        ("files", "delete_it", 'no tool "delete_it" in servers.files; search_tools finds tools by what they do'),
        ("empty", "x", "servers.empty is unavailable: calls fail until it is back (no such command)"),
        ("off", "x", "servers.off is disabled in upstream.yaml; the user can enable it"),
        ("again", "x", "servers.again is unavailable: calls fail until it is back (exited with code 1)"),
        ("gtihub", "x", 'no server "gtihub"; nearest: github'),
        ("slow", "x", "servers.slow has no tools yet: it is still connecting; run the program again later"),
        ("github", "a\x1b[31m\n" + "b" * 200, f'no tool "a {"b" * 78} … (122 more characters)" in servers.github; '),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(server: str, tool: str, message: str) -> None:
    others = [f"tell_it_{n}_{'x' * 20}" for n in range(9)]
    catalog = Catalog.build(
        [
            listing("github", "create_issue", "close_pull"),
            listing("files", "edit_file", "file_read", "writeFile", "list_folders", "list_entities", *others),
            listing("sheets", "list_workbooks", "delete_sheet", "create_sheet"),
            listing("empty", state=UpstreamState.FAILED, error="no such command"),
            listing("slow", state=UpstreamState.CONNECTING),
            listing("again", state=UpstreamState.CONNECTING, error="exited with code 1"),
            listing("off", state=UpstreamState.DISABLED),
        ]
    )
    with pytest.raises(UnknownTool) as raised:
        catalog.tool(server, tool)
    assert str(raised.value).startswith(message)


def test_the_cause_of_a_crash_shows_the_last_whole_lines_of_stderr() -> None:
    """The last line of a Python traceback has the error; the beginning has none of it."""
    frames = [f'  File "/srv/app.py", line {n}, in step_{n}' for n in range(40)]
    stderr = "\n".join(["Traceback (most recent call last):", *frames, "KeyError: 'ORDERS_TOKEN'"])
    error = f"exited with code 1; its stderr ends with:\n{stderr}"
    (server,) = Catalog.build([listing("orders", state=UpstreamState.FAILED, error=error)]).servers
    shown = server.availability
    assert shown.startswith("unavailable: calls fail until it is back (exited with code 1; its stderr ends with: File ")
    assert shown.endswith("in step_38 | File \"/srv/app.py\", line 39, in step_39 | KeyError: 'ORDERS_TOKEN')")
    assert len(server.cause) < 350


class TestVersions:
    def test_change_with_a_tool_and_not_with_the_order_or_state_of_servers(self) -> None:
        one, other = listing("a", "x"), listing("b", "y")
        assert Catalog.build([one, other]).version == Catalog.build([other, one]).version
        before = listing("a", "x", "y")
        failed = dataclasses.replace(before, state=UpstreamState.FAILED, error="gone")
        changed = dataclasses.replace(
            before, tools=(before.tools[0], dataclasses.replace(before.tools[1], effect=Effect.DESTROYS))
        )
        versions = [Catalog.build([one]).version for one in (before, failed, changed)]
        assert versions[0] == versions[1] != versions[2]


class TestTheNextSnapshot:
    def test_listings_that_did_not_change_pass_on_as_they_are(self) -> None:
        kept, changed = listing("a", "x"), listing("b", "y", "z")
        before = Catalog.build([kept, changed])
        stub = before.tool("b", "y").stub
        after = Catalog.build([kept, dataclasses.replace(changed, tools=changed.tools[:1])], before)
        assert after.server("a") is before.server("a")
        assert after.tool("b", "y").stub is stub
        assert [tool.name for tool in before.server("b").tools] == ["y", "z"]

    def test_a_server_that_fails_keeps_its_tools_and_says_that_calls_would_not_go_through(self) -> None:
        up = listing("a", "x")
        before = Catalog.build([up])
        after = Catalog.build([dataclasses.replace(up, state=UpstreamState.FAILED, error="gone")], before)
        assert after.tool("a", "x") is before.tool("a", "x")
        assert (before.server("a").is_available, after.server("a").is_available) == (True, False)


def test_suggestions_among_names_made_to_be_compared_long_take_little_time() -> None:
    """They are looked for on the event loop, at each call of a hostile program that names no tool."""
    shuffle = random.Random(1).sample
    names = ["_".join("".join(shuffle("abcdefghijkl", 12)) for _ in range(5)) for _ in range(1_001)]
    server = Catalog.build([listing("hostile", *names[1:])]).servers[0]

    def suggested() -> None:
        with pytest.raises(UnknownTool):
            server.tool(names[0])

    assert lines_run(suggested) < 1_000_000, "comparing it with each of 100 such names takes 790,000"
