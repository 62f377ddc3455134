"""Threat: programs and upstreams fill the disk through the record of what they did.

Rule: what is kept of one call or execution is bounded, whatever it holds, and old records give way to new ones.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.kit import hostile, recorded
from tests.behaviour.product import configuration, in_memory

pytestmark = pytest.mark.slow

LARGE = """
value = 1
for _ in range(4):
    value = {f"some_name_of_a_field_{chr(97 + n // 9)}{n % 9}": value for n in range(20)}
"""
"""20 to the power of 4 keys, 4 MB as JSON."""


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "state" / "codemode.db")) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("payloads", ["shapes", "all"])
async def test_a_call_with_a_large_nested_argument_leaves_16_kib(tmp_path: Path, payloads: str) -> None:
    state = {"dir": str(tmp_path / "state"), "payloads": payloads}
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "plain"), state=state)) as host:
        done = await host.run(f"from servers.plain import act\n{LARGE}\nact(how='ping', more=value)")
        assert done.content["calls"], "control: it came as far as the gateway"
        assert (await host.run("from servers.plain import act\nact(how='ping')")).value == "pong"
    large, small = query(tmp_path, "SELECT payload FROM audit WHERE kind = 'call_decided' ORDER BY number")
    assert len(large[0].encode()) <= 16 * 1024
    assert json.loads(large[0])
    assert json.loads(small[0]) == {"how": "ping" if payloads == "all" else "str of 4"}, "control: a small one is whole"
    assert recorded(tmp_path)[1] == ("plain", "act", "allow", "succeeded")


async def test_a_program_that_calls_without_end_leaves_no_more_than_the_configured_size(tmp_path: Path) -> None:
    """1 MiB is kept of the audit, 1 of the journal, and what was written since the last look at them."""
    state = {"dir": str(tmp_path / "state"), "payloads": "all", "record_mb": 1, "journal_mb": 1}
    path = configuration(tmp_path, hostile(tmp_path, "plain"), state=state)
    async with in_memory(path) as host:
        for _ in range(8):
            code = "from servers.plain import act\nfor _ in range(25):\n    act(how='ping', more='x' * 20_000)\n1"
            await host.run(code)
        ((calls,),) = query(tmp_path, "SELECT SUM(calls) FROM journal_executions")
        ((first,),) = query(tmp_path, "SELECT MIN(started_at) FROM journal_executions")
        await host.until(lambda: kept_bytes(tmp_path) < 2.4 * 2**20)
        await host.run("1+1")
    assert calls >= 25, "control: they were recorded"
    assert query(tmp_path, f"SELECT 1 FROM journal_executions WHERE started_at > {first}"), "the newest stay"


def kept_bytes(folder: Path) -> int:
    ((pages, free),) = query(
        folder, "SELECT p.page_count, f.freelist_count FROM pragma_page_count p, pragma_freelist_count f"
    )
    return int((pages - free) * 4096)
