"""A call that is tried again is recorded with its reason. The upstream is a real process over HTTP; it is killed
and started anew between two programs, so that it has forgotten its session when the second one calls it.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from tests.answering import free_port
from tests.behaviour.product import configuration, in_memory
from tests.upstreams.kit import Kit
from tests.upstreams.test_http import address, killed, serving

CALL_TWICE = "from servers.sums import add\nreturn [add(a=1, b=2), add(a=2, b=2)]"


async def test_the_audit_has_the_retry_between_decision_and_end_and_stays_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit, port = Kit(), free_port()
    sums = {"url": address("http", port), "transport": "http", "protocol": "legacy"}
    path = configuration(tmp_path, {"sums": sums})
    async with serving(kit, "http", port) as first, in_memory(path) as host:
        plain = await host.run(CALL_TWICE)
        await killed(kit, first, port)
        async with serving(kit, "http", port):
            retried = await host.run(CALL_TWICE)
    assert [it.value for it in (plain, retried)] == [[3, 4], [3, 4]]

    async def command(*words: str) -> str:
        assert await anyio.to_thread.run_sync(run, [*words, "--config", str(path)]) == 0
        return capsys.readouterr().out

    rows = []
    for answer in (plain, retried):
        found = json.loads(await command("audit", "show", answer.content["execution_id"], "--json"))
        rows.append([(it["kind"], it["call"]) for it in found if it["call"] is not None])
    assert rows[0] == [("call_decided", 1), ("call_ended", 1), ("call_decided", 2), ("call_ended", 2)], "the control"
    assert rows[1] == [rows[0][0], ("call_retried", 1), *rows[0][1:]]
    assert "the audit is sound" in await command("audit", "verify")
