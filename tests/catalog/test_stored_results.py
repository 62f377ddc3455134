"""Results stored in the tool or server that they were computed from: what every search would compute again."""

from __future__ import annotations

import dataclasses
import gc
import weakref

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.domain.tools import ToolDefinition

COMPUTED: list[str] = []


@stored_in_value
def shouted(tool: Tool) -> str:
    COMPUTED.append(tool.name)
    return tool.name.upper()


def test_a_result_is_computed_once_for_each_value_and_again_for_a_changed_copy() -> None:
    COMPUTED.clear()
    one, other = (Tool("s", name, ToolDefinition(name)) for name in ("one", "other"))
    assert [shouted(one), shouted(one), shouted(other)] == ["ONE", "ONE", "OTHER"]
    assert shouted(dataclasses.replace(one, name="first")) == "FIRST"
    assert COMPUTED == ["one", "other", "first"]


def test_a_stored_result_does_not_keep_its_value_alive() -> None:
    tool = Tool("s", "gone", ToolDefinition("gone"))
    assert shouted(tool) == "GONE"
    remaining = weakref.ref(tool)
    del tool
    gc.collect()
    assert remaining() is None
