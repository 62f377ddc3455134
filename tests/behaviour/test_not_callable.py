"""Tools that need tasks are listed with the reason, and a call never reaches the server; tools that need a feature of
the host are listed for hosts that have it. Driven by a host; the server is a real process."""

from __future__ import annotations

from pathlib import Path

from .person import Person
from .product import configuration, hotel, in_memory

TASKS = "hotel.plan_stay can't be called: it needs tasks, which codemode-server does not support yet"


async def test_tools_that_need_more_than_we_support_are_listed_with_the_reason_and_never_called(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path))) as host:
        assert (await host.call("list_dir", path="/servers/hotel")).text == (
            "/servers/hotel · 4 tools · 1 not callable: codemode-server does not support tasks yet\n"
            "leave.py  Answers and ends the server.\n"
            "list_rooms.py  Lists the rooms.\n"
            "plan_stay.py  [not callable: needs tasks]\n"
            "say.py  Answers with the text."
        )
        assert "can't be called: it needs tasks" in (await host.call("read_tool", path="hotel.plan_stay")).text
        refused = await host.run("from servers.hotel import list_rooms, plan_stay\nlist_rooms()\nplan_stay()")
        assert f"CheckFailed: not run:\nline 3: {TASKS}" in refused.text
        late = await host.run("import codemode\nname = 'plan_' + 'stay'\ncodemode.call('hotel', name, {})")
        assert TASKS in late.text
        mapped = await host.run("from servers.hotel import plan_stay\nplan_stay.map([{}, {}]).errors")
        assert "it needs tasks" in mapped.text
        works = await host.run("from servers.hotel import list_rooms\nlist_rooms()")
        assert "12 rooms" in works.text
    lines = (tmp_path / "hotel.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("call")] == ["call list_rooms"]


async def test_tools_that_need_a_feature_are_listed_for_a_host_that_has_it_by_one_process(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path)), **Person().callbacks) as host:
        listed = (await host.call("list_dir", path="/servers/hotel")).text
        assert "confirm.py  Asks by elicitation.\n" in listed
        assert "export.py  Writes to one of the roots.\n" in listed
    starts = [line for line in (tmp_path / "hotel.log").read_text().splitlines() if line.startswith("start")]
    assert starts == ["start elicitation roots sampling"]


async def test_for_a_host_without_features_they_are_not_there(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path))) as host:
        assert "export" not in (await host.call("list_dir", path="/servers/hotel")).text
    assert (tmp_path / "hotel.log").read_text().splitlines() == ["start"]
