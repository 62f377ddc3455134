"""A call that is tried again is recorded with its reason, and the person sees it at the call: in the audit, in
`executions show`, on the page, in the metrics. The upstream is a real process over Streamable HTTP; it is killed and
started anew between two programs, so that it has forgotten its session when the second one calls it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from codemode_server.cli import run
from tests.auth.kit import free_port
from tests.behaviour.product import configuration, in_memory
from tests.upstreams.kit import Kit
from tests.upstreams.test_http import address, killed, serving

CALL_TWICE = "from servers.sums import add\nreturn [add(a=1, b=2), add(a=2, b=2)]"


@dataclass
class Recorded:
    """What two executions left: one without a retry, and one whose first call was tried again."""

    path: Path
    plain: str
    retried: str
    metrics: str

    async def command(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        """What a command prints."""
        words = [*arguments, "--config", str(self.path)]
        assert await anyio.to_thread.run_sync(run, words) == 0
        return capsys.readouterr().out


async def _record(folder: Path) -> Recorded:
    kit, port, metrics_port = Kit(), free_port(), free_port()
    sums = {"url": address("http", port), "transport": "http", "protocol": "legacy"}
    path = configuration(folder, {"sums": sums}, metrics={"port": metrics_port})
    async with serving(kit, "http", port) as first, in_memory(path) as host:
        plain = await host.run(CALL_TWICE)
        await killed(kit, first, port)
        async with serving(kit, "http", port):
            retried = await host.run(CALL_TWICE)
        async with httpx2.AsyncClient() as http:
            metrics = (await http.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
    assert [it.value for it in (plain, retried)] == [[3, 4], [3, 4]]
    return Recorded(path, plain.content["execution_id"], retried.content["execution_id"], metrics)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return anyio.run(_record, tmp_path_factory.mktemp("retries"))


async def test_the_audit_has_the_retry_between_decision_and_end_and_stays_sound(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    async def rows(execution_id: str) -> Sequence[tuple[str, int]]:
        found = json.loads(await recorded.command(capsys, "audit", "show", execution_id, "--json"))
        return [(it["kind"], it["call"]) for it in found if it["call"] is not None]

    plain = [("call_decided", 1), ("call_ended", 1), ("call_decided", 2), ("call_ended", 2)]
    assert await rows(recorded.plain) == plain, "the control"
    assert await rows(recorded.retried) == [plain[0], ("call_retried", 1), *plain[1:]]
    assert "the audit is sound" in await recorded.command(capsys, "audit", "verify")
