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
