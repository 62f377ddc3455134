"""What a person sees of a program in a tracing tool: decisions, sizes and states; payloads only as `state.payloads`
says, secrets never; and tracing never delays a call.

A real collector on loopback and the product as a child process. Langfuse runs with its exporter replaced by one in
memory; both set what is global in a process, so each run has a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.behaviour.product import UPSTREAMS, Answer, configuration, office, over_stdio
from tests.hosts.kit import http_host, recorded_sessions, serving
from tests.telemetry.attempt import ATTEMPT
from tests.telemetry.collector import Collector, collecting

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECRET = "ghp_0123456789abcdef"
CANARY = "canary-7f3a9c"
PROGRAM = f"""
from codemode import ToolError
from servers.traced import echo
from servers.github import boom, create_issue

{ATTEMPT}
attempt(boom)
attempt(create_issue, owner="{CANARY}", repo="b", title="c")
echo(text="{CANARY} {SECRET} " + "word " * 1_000)[:{len(CANARY)}]
"""


def traced(folder: Path, *, otlp: str = "", **sections: Any) -> Path:
    """A configuration with the upstream that takes part, and one rule that refuses."""
    servers = office(folder, "github")
    servers["traced"] = {
        **fork_server.upstream(str(UPSTREAMS / "traced.py")),
        "env": {"TRACED_LOG": str(folder / "traceparents"), "TRACED_OTLP": otlp, "API_TOKEN": SECRET},
    }
    rules = [{"deny": "github/create_issue", "reason": "By hand."}]
    return configuration(folder, servers, permissions={"rules": rules}, **sections)


async def run_collected(folder: Path, collector: Collector, payloads: str) -> Answer:
    """Run the program in a product that exports to the collector; all spans are there once it has ended."""
    path = traced(
        folder,
        otlp=collector.endpoint,
        tracing={"otlp_endpoint": collector.endpoint},
        state={"dir": str(folder / "state"), "payloads": payloads},
    )
    async with over_stdio(path) as host:
        await host.run("1")  # from here on the exporter is set up
        answer = await host.run(PROGRAM)
    assert answer.value == CANARY
    return answer


async def test_each_host_over_http_is_told_as_a_session_of_its_own(tmp_path: Path) -> None:
    """By the id that the record has, and never by the one that lets a host in."""
    with collecting() as collector:
        path = configuration(tmp_path, {}, tracing={"otlp_endpoint": collector.endpoint})
        with serving(path) as served:
            async with http_host(served, tmp_path, "legacy") as ada, http_host(served, tmp_path, "legacy") as bob:
                ran = [await one.execute() for one in (ada, bob, ada, bob)]
            issued = ada.issued | bob.issued
    told = [collector.of_program(execution)[0].attributes["session.id"] for execution in ran]
    assert told == [recorded_sessions(tmp_path)[execution] for execution in ran]
    assert (told[0], told[1]) == (told[2], told[3])
    assert told[0] != told[1]
    assert told[0].encode() in collector.raw
    assert len(issued) == 2
    assert not [session for session in issued if session.encode() in collector.raw]


async def test_each_span_says_what_was_decided_and_how_it_ended(tmp_path: Path) -> None:
    with collecting() as collector:
        answer = await run_collected(tmp_path, collector, "shapes")
    execution, trace = collector.of_program(answer.content["execution_id"])
    told = execution.attributes
    assert not execution.is_error
    assert {name: told[f"codemode.{name}"] for name in ("status", "calls", "isolation")} == {
        "status": "succeeded",
        "calls": 3,
        "isolation": "wasm",
    }
    assert told["codemode.result_tokens"] > 1_000
    calls = {span.name: span for span in trace if span.name.startswith("execute_tool ")}
    expected = {
        "execute_tool traced.echo": ("allow", "succeeded", 3, False),
        "execute_tool github.boom": ("allow", "failed", 1, True),
        "execute_tool github.create_issue": ("deny", "refused", 2, True),
    }
    for name, (decision, status, seq, is_error) in expected.items():
        span = calls[name]
        told = span.attributes
        assert (told["codemode.decision"], told["codemode.status"], told["codemode.seq"]) == (decision, status, seq)
        assert told["codemode.execution_id"] == answer.content["execution_id"]
        assert told["gen_ai.operation.name"] == "execute_tool"
        assert span.is_error == is_error
        assert told.get("error.type") == (status if is_error else None)
    assert calls["execute_tool github.boom"].message == "failed", (
        "a message may hold values, and only shapes are kept here"
    )
    assert "rule 1" in calls["execute_tool github.create_issue"].attributes["codemode.decision_reason"]
    assert calls["execute_tool traced.echo"].attributes["codemode.result_bytes"] > 5_000


@pytest.mark.parametrize(("payloads", "kept"), [("all", True), ("shapes", False), ("none", False)])
async def test_payloads_are_kept_only_as_the_configuration_says_and_secrets_never(
    tmp_path: Path, payloads: str, kept: bool
) -> None:
    with collecting() as collector:
        answer = await run_collected(tmp_path, collector, payloads)
    _, trace = collector.of_program(answer.content["execution_id"])
    assert (CANARY.encode() in collector.raw) == kept
    assert SECRET.encode() not in collector.raw
    (echo,) = [span for span in trace if span.name == "execute_tool traced.echo"]
    seen = {name: echo.attributes.get(f"langfuse.observation.{name}") for name in ("input", "output")}
    if payloads == "shapes":
        assert re.fullmatch(r'\{"text": "str of 50\d\d"\}', str(seen["input"]))
        assert re.fullmatch(r'"str of 50\d\d"', str(seen["output"]))
    elif payloads == "none":
        assert seen == {"input": None, "output": None}
    else:
        assert CANARY in str(seen["input"])
        assert CANARY in str(seen["output"])


@contextmanager
def silent() -> Iterator[int]:
    """A port on which somebody listens and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def langfuse_keys(port: int) -> dict[str, str]:
    return {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-test",
        "LANGFUSE_SECRET_KEY": "sk-lf-test",
        "LANGFUSE_BASE_URL": f"http://127.0.0.1:{port}",
    }


@pytest.mark.parametrize("exporter", ["otlp", "langfuse"])
@pytest.mark.parametrize("how", ["closed", "silent"])
async def test_an_exporter_that_is_down_holds_up_neither_a_call_nor_the_end(
    tmp_path: Path, exporter: str, how: str
) -> None:
    with silent() as port:
        at = port if how == "silent" else 9
        path = traced(
            tmp_path, tracing={"otlp_endpoint": f"http://127.0.0.1:{at}/v1/traces"} if exporter == "otlp" else {}
        )
        async with over_stdio(path, env=langfuse_keys(at) if exporter == "langfuse" else None) as host:
            answer = await host.run(PROGRAM)
    assert answer.value == CANARY
    log = (tmp_path / "state" / "logs" / "codemode.log").read_text()
    assert re.search(rf"traces to {exporter}: \d+ spans were dropped so far \(the product ended: \d+\)", log)
    assert "Traceback" not in log


async def test_a_program_that_the_check_refuses_is_a_span_that_says_so_and_no_call(tmp_path: Path) -> None:
    with collecting() as collector:
        path = traced(tmp_path, otlp=collector.endpoint, tracing={"otlp_endpoint": collector.endpoint})
        async with over_stdio(path) as host:
            await host.run("1")
            answer = await host.run("from servers.github import create_issue\ncreate_issue(titel='x')")
    execution, trace = collector.of_program(answer.content["execution_id"])
    told = {name: execution.attributes[f"codemode.{name}"] for name in ("status", "calls", "check_errors")}
    assert told == {"status": "failed", "calls": 0, "check_errors": 1}
    assert not [span.name for span in trace if span.name.startswith("execute_tool ")]


IN_LANGFUSE = """
import asyncio, json, sys
from pathlib import Path
if sys.argv[2] == "not installed":
    sys.modules["langfuse"] = None
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from mcp import Client
from codemode_server import logs
from codemode_server.app import App
from codemode_server.config import load
exporter = InMemorySpanExporter()
async def main():
    loaded = load(Path(sys.argv[1]))
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        start = app.tracing.start
        app.tracing.start = lambda settings: start(settings, langfuse_exporter=exporter)
        async with Client(app.front) as client:
            await client.call_tool("execute_code", {"code": "1"})
            result = await client.call_tool("execute_code", {"code": sys.stdin.read()}, read_timeout_seconds=60)
    return result.structured_content
content = asyncio.run(main())
spans = [
    {
        "name": span.name,
        "id": format(span.context.span_id, "016x"),
        "parent": format(span.parent.span_id, "016x") if span.parent else None,
        "trace": format(span.context.trace_id, "032x"),
        "attributes": dict(span.attributes),
    }
    for span in exporter.get_finished_spans()
]
print(json.dumps({"content": content, "spans": spans}))
"""


def in_langfuse(path: Path, environment: dict[str, str], how: str = "installed") -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(IN_LANGFUSE), str(path), how],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("LANGFUSE")} | environment,
        input=PROGRAM,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["content"]["value"] == CANARY, told
    return told, done.stderr


@pytest.mark.parametrize("payloads", ["all", "shapes", "none"])
def test_langfuse_gets_session_and_principal_of_each_program_and_call_and_values_only_as_configured(
    tmp_path: Path, payloads: str
) -> None:
    path = traced(tmp_path, principal="ada", state={"dir": str(tmp_path / "state"), "payloads": payloads})
    told, _ = in_langfuse(path, langfuse_keys(9))
    content = told["content"]
    ours = {
        span["name"]: span["attributes"]
        for span in told["spans"]
        if span["attributes"].get("codemode.execution_id") == content["execution_id"]
    }
    assert set(ours) == {
        "execution",
        *(f"execute_tool {name}" for name in ("traced.echo", "github.boom", "github.create_issue")),
    }
    assert {span["langfuse.user.id"] for span in ours.values()} == {"ada"}
    (session,) = {span["langfuse.session.id"] for span in ours.values()}
    assert session == recorded_sessions(tmp_path)[content["execution_id"]]
    echo = [ours["execute_tool traced.echo"].get(f"langfuse.observation.{name}", "") for name in ("input", "output")]
    program = [ours["execution"].get(f"langfuse.observation.{name}", "") for name in ("input", "output")]
    assert all((CANARY in text) == (payloads == "all") for text in (*echo, *program))
    assert all(bool(text) == (payloads != "none") for text in (*echo, *program))
    assert all(("***" in text) == (payloads == "all") for text in (*echo, program[0]))
    assert SECRET not in json.dumps(told["spans"])


@pytest.mark.parametrize("where", ["environment", "settings"])
def test_langfuse_gets_the_same_tree_with_the_kinds_of_observation_session_and_user(tmp_path: Path, where: str) -> None:
    keys = {"public_key": "pk-lf-test", "secret_key": "sk-lf-test", "base_url": "http://127.0.0.1:9"}
    path = traced(tmp_path, tracing={"langfuse": keys} if where == "settings" else {})
    told, _ = in_langfuse(path, langfuse_keys(9) if where == "environment" else {})
    spans = {span["id"]: span for span in told["spans"]}
    execution_id = told["content"]["execution_id"]
    (execution,) = [
        span
        for span in spans.values()
        if span["name"] == "execution" and span["attributes"]["codemode.execution_id"] == execution_id
    ]
    below = {span["name"]: span for span in spans.values() if span["parent"] == execution["id"]}
    assert set(below) == {"execute_tool traced.echo", "execute_tool github.boom", "execute_tool github.create_issue"}
    assert spans[execution["parent"]]["name"] == "tools/call execute_code"
    client = [span["name"] for span in spans.values() if span["parent"] == below["execute_tool traced.echo"]["id"]]
    assert client == ["tools/call echo"]
    kinds = {span["name"]: span["attributes"]["langfuse.observation.type"] for span in (execution, *below.values())}
    assert kinds == {"execution": "span", **dict.fromkeys(below, "tool")}
    assert execution["attributes"]["user.id"] == "default"
    assert len(execution["attributes"]["session.id"]) == 16
    assert below["execute_tool github.boom"]["attributes"]["langfuse.observation.level"] == "ERROR"
    assert CANARY not in json.dumps(told["spans"])
    assert SECRET not in json.dumps(told["spans"])


def test_without_the_extra_there_is_one_warning_and_the_product_goes_on(tmp_path: Path) -> None:
    told, said = in_langfuse(traced(tmp_path), langfuse_keys(9), "not installed")
    assert told["spans"] == []
    (warning,) = [line for line in said.splitlines() if "angfuse" in line]
    assert warning.startswith("codemode-server: Langfuse keys are set, but the extra is not installed: pip install")


def test_without_keys_langfuse_is_not_even_imported(tmp_path: Path) -> None:
    told, said = in_langfuse(traced(tmp_path), {}, "not installed")
    assert told["spans"] == []
    assert "angfuse" not in said
