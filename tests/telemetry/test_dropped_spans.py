"""`codemode-server status` says what a running product's exporters did not take, for a day."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from codemode_server.dropped_spans import status_line, writer
from tests import fork_server
from tests.behaviour.product import configuration, over_stdio
from tests.telemetry.test_span_queue import failing, working

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("collector", "is_named"), [(failing, True), (working, False)])
async def test_status_has_a_line_on_spans_that_a_collector_did_not_take(
    tmp_path: Path, collector: object, is_named: bool
) -> None:
    with collector() as port:  # type: ignore[operator]
        path = configuration(tmp_path, {}, tracing={"otlp_endpoint": f"http://127.0.0.1:{port}/v1/traces"})
        async with over_stdio(path) as host:
            await host.run("1")
            await host.run("2")
    command = fork_server.command("-m", "codemode_server", "status", "--wait", "1", "--config", str(path))
    status = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    text = (await status.communicate())[0].decode()
    lines = [line for line in text.splitlines() if line.startswith("traces: ")]
    assert bool(lines) == is_named
    if is_named:
        assert lines[0].startswith("traces: otlp did not take ")
        assert "(HTTP 500 Internal Server Error: " in lines[0]


@pytest.mark.parametrize(("hours", "is_named"), [(23, True), (25, False), (-1, False)])
def test_what_was_dropped_is_told_for_a_day(tmp_path: Path, hours: float, is_named: bool) -> None:
    writer(tmp_path)("otlp", {"the queue was full": 1_204})
    line = status_line(tmp_path, time.time() + hours * 3600)
    assert ("otlp did not take 1,204 spans" in line) == is_named


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"exporter": 1}'])
def test_a_file_that_is_none_of_ours_is_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dropped-spans.json").write_bytes(content)
    assert status_line(tmp_path, time.time()) == ""
