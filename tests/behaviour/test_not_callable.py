"""Tools that need what codemode-server does not support yet (tasks, elicitation, sampling, roots): the model sees them
and the reason, and a call never reaches the server. Driven by a host; the server is a real process."""

from __future__ import annotations

from pathlib import Path

from .product import Host, configuration, hotel, in_memory

ROOTS = "hotel.export can't be called: it needs roots, which codemode-server does not support yet"


async def listed_with_hidden_tools(host: Host) -> str:
    async def are_there() -> bool:
        return "export.py" in (await host.call("list_dir", path="/servers/hotel")).text

    await host.until(are_there)
    return (await host.call("list_dir", path="/servers/hotel")).text


async def test_tools_that_need_more_than_we_support_are_listed_with_the_reason_and_never_called(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path))) as host:
        assert await listed_with_hidden_tools(host) == (
            "/servers/hotel · 6 tools"
            " · 3 not callable: codemode-server does not support elicitation, roots, tasks yet\n"
            "confirm.py  Asks by elicitation. [not callable: needs elicitation]\n"
            "export.py  Writes to one of the roots. [not callable: needs roots]\n"
            "leave.py  Answers and ends the server.\n"
            "list_rooms.py  Lists the rooms.\n"
            "plan_stay.py  [not callable: needs tasks]\n"
            "say.py  Answers with the text."
        )
        assert "can't be called: it needs roots" in (await host.call("read_tool", path="hotel.export")).text
        found = (await host.call("search_tools", query="export to the roots")).text
        assert "[not callable: needs roots]" in found

        refused = await host.run("from servers.hotel import list_rooms, export\nlist_rooms()\nexport()")
        assert f"CheckFailed: not run:\nline 3: {ROOTS}" in refused.text
        late = await host.run("import codemode\nname = 'ex' + 'port'\ncodemode.call('hotel', name, {})")
        assert ROOTS in late.text
        mapped = await host.run("from servers.hotel import plan_stay\nplan_stay.map([{}, {}]).errors")
        assert "it needs tasks" in mapped.text

        works = await host.run("from servers.hotel import list_rooms\nlist_rooms()")
        assert "12 rooms" in works.text
    lines = (tmp_path / "hotel.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("call")] == ["call list_rooms"]


async def test_hidden_tools_are_looked_for_once_and_remembered_between_runs(tmp_path: Path) -> None:
    """A second process of a server may have side effects, so it is started once for each version of it."""
    path = configuration(tmp_path, hotel(tmp_path))
    for _ in range(2):
        async with in_memory(path) as host:
            await listed_with_hidden_tools(host)
    starts = [line for line in (tmp_path / "hotel.log").read_text().splitlines() if line.startswith("start")]
    assert starts == ["start", "start elicitation roots sampling", "start"]


async def test_a_server_that_never_speaks_of_client_features_is_not_started_a_second_time(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path, "quiet"))) as host:
        assert "4 tools" in (await host.call("list_dir", path="/servers/hotel")).text
        assert "12 rooms" in (await host.run("from servers.hotel import list_rooms\nlist_rooms()")).text
    assert (tmp_path / "hotel.log").read_text().splitlines() == ["start", "call list_rooms"]
