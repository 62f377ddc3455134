"""Links, files, pages and many calls, through the real product with a real upstream behind it, as a host sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.attacks.kit import recorded
from tests.behaviour.product import UPSTREAMS, configuration, in_memory


def archive(folder: Path, **settings: Any) -> dict[str, Any]:
    return {"archive": fork_server.upstream(str(UPSTREAMS / "archive.py"), str(folder / "archive.log")) | settings}


def read(folder: Path) -> list[str]:
    """The resources that the upstream was asked for."""
    log = folder / "archive.log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_linked_document_is_fetched_when_the_program_wants_it(tmp_path: Path, protocol: str) -> None:
    code = """
from servers.archive import find_letters
said, first, *others = find_letters(count=3)
text = first.fetch().text
[said, first.name, text, [it.is_link for it in others]]
"""
    async with in_memory(configuration(tmp_path, archive(tmp_path, protocol=protocol))) as host:
        answer = await host.run(code)
    assert answer.value == ["3 letters", "letter-1.txt", "Letter 1: all is well.", [True, True]]
    assert [(call["tool"], call["status"]) for call in answer.content["calls"]] == [
        ("archive.find_letters", "succeeded"),
        ("archive.resources.read", "succeeded"),
    ]
    assert read(tmp_path) == ["letters/1"]
    assert recorded(tmp_path)[1] == ("archive", "resources/read", "allow", "succeeded")


async def test_a_document_that_can_not_be_read_is_a_tool_error(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, archive(tmp_path))) as host:
        answer = await host.run(
            "from servers.archive import lost_letter\ntry: lost_letter().text\nexcept ToolError as e: r = e.kind\nr"
        )
    assert answer.value == "tool_failed"
    assert recorded(tmp_path)[1][1:] == ("resources/read", "allow", "failed")
