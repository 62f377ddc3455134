"""Tools that a server lists only for clients with elicitation, sampling or roots are there for hosts that have these,
and a tool that wants to be a task is called plainly where its server has no tasks. Driven by a host; the server is a
real process."""

from __future__ import annotations

from pathlib import Path

from .person import Person
from .product import configuration, hotel, in_memory


async def test_a_tool_that_wants_a_task_is_called_plainly_where_the_server_has_none(tmp_path: Path) -> None:
    """The specification of 2025-11-25: without the capability, `taskSupport` is ignored."""
    async with in_memory(configuration(tmp_path, hotel(tmp_path))) as host:
        assert "12 rooms" in (await host.run("from servers.hotel import plan_stay\nplan_stay()")).text
    assert "call plan_stay" in (tmp_path / "hotel.log").read_text()


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
