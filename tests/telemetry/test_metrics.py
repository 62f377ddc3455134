"""The numbers of a running product, as Prometheus's text and by OTLP: the same, with few labels, no secrets, and only
for those who may read them.

The product as a child process; the text is read by Prometheus's own parser, OTLP by a collector on loopback.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import fork_server
from tests.answering import free_port
from tests.behaviour.product import configuration, office, over_stdio
from tests.hosts.kit import serving, until
from tests.telemetry.collector import ATTEMPT, collecting

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CANARY, SECRET = "canary-7f3a9c", "ghp_0123456789abcdef"
PROGRAM = f"""
from codemode import ToolError
from servers.github import boom, create_issue, list_issues

{ATTEMPT}
attempt(boom)
attempt(create_issue, owner="a", repo="{CANARY}", title="{SECRET}")
list_issues(repo="{CANARY}")
list_issues(repo="{CANARY}")
"""
Samples = dict[str, dict[tuple[str, ...], float]]


def configured(folder: Path, servers: dict[str, Any] | None = None, **metrics: Any) -> Path:
    servers = office(folder, "github") if servers is None else servers
    for server in servers.values():
        server["env"] = {**server.get("env", {}), "API_TOKEN": SECRET}
    rules = [{"deny": "github/create_issue", "reason": "By hand."}]
    return configuration(folder, servers, metrics=metrics, permissions={"rules": rules})


def samples(text: str) -> Samples:
    """The values by name and by those of the labels; of histograms only the count."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not re.search(r"_(bucket|sum|created)$", sample.name):
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def scraped(port: int) -> str:
    async with httpx2.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


async def test_prometheus_reads_what_ran(tmp_path: Path) -> None:
    port = free_port()
    async with over_stdio(configured(tmp_path, port=port)) as host:
        await host.run(PROGRAM)
        await host.run("raise ValueError")
        text = await scraped(port)
    found = samples(text)
    assert found.pop("codemode_sandboxes").keys() == {("busy",), ("idle",)}
    assert found == {
        "codemode_executions_total": {("program", "succeeded"): 1, ("program", "failed"): 1},
        "codemode_execution_duration_seconds_count": {("program",): 2},
        "codemode_calls_total": {
            ("allow", "github", "succeeded"): 2,
            ("allow", "github", "failed"): 1,
            ("deny", "github", "refused"): 1,
        },
        "codemode_call_duration_seconds_count": {("github",): 4},
        "codemode_executions_queued": {(): 0},
        "codemode_executions_running": {(): 0},
        "codemode_executions_places": {(): 4},
        "codemode_approvals_waiting": {(): 0},
        "codemode_sandbox_level": {("wasm",): 1},
        "codemode_upstream_state": {("github", "ready"): 1},
    }
    assert not [word for word in (CANARY, SECRET, "list_issues") if word in text]


async def test_a_collector_gets_the_same_by_otlp(tmp_path: Path) -> None:
    with collecting() as collector:
        path = configured(tmp_path, otlp_endpoint=collector.metrics_endpoint)
        async with over_stdio(path) as host:
            await host.run(PROGRAM)
    assert collector.metrics["codemode.calls"] == {
        ("allow", "github", "succeeded"): 2,
        ("allow", "github", "failed"): 1,
        ("deny", "github", "refused"): 1,
    }
    assert collector.metrics["codemode.executions"] == {("program", "succeeded"): 1}
    assert collector.metrics["codemode.call.duration"] == {("github",): 4}
    assert [server for server, _ in collector.metrics["codemode.upstream.state"]] == ["github"]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"http": True}, {"nobody": 401, "owner": 200, "reader": 404}),
        ({"http": True, "readers": ["prometheus"]}, {"nobody": 401, "owner": 200, "reader": 200}),
        ({}, {"nobody": 401, "owner": 404, "reader": 404}),
    ],
)
def test_over_http_it_takes_the_token_of_one_who_may_read(
    tmp_path: Path, metrics: dict[str, Any], expected: dict[str, int]
) -> None:
    path = configured(tmp_path, {}, **metrics)
    made = subprocess.run(
        fork_server.command("-m", "codemode_server", "tokens", "create", "prometheus", "--config", str(path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (token,) = re.findall(r"^\S{20,}$", made.stdout, flags=re.MULTILINE)
    with serving(path) as served:
        headers = {
            "nobody": {},
            "owner": served.headers,
            "reader": {"Authorization": f"Bearer {token}"},
        }
        url = served.url.replace("/mcp", "/metrics")

        def status(who: str) -> int:
            return int(httpx2.get(url, headers=headers[who]).status_code)

        until(lambda: status("owner") == expected["owner"])
        found = {who: status(who) for who in headers}
    assert found == expected


def test_without_configuration_nothing_of_the_sdk_is_imported(tmp_path: Path) -> None:
    path = configured(tmp_path, {})
    code = f"""
import asyncio, sys
from pathlib import Path
from mcp import Client
from codemode_server.app import App
from codemode_server.config import load
async def main():
    async with App.open(load(Path({str(path)!r}))) as app, Client(app.front) as client:
        await client.call_tool("execute_code", {{"code": "1"}})
asyncio.run(main())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "requests"))])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
