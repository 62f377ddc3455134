"""What a person sees of a program in a tracing tool: decisions, sizes and states; payloads only as `state.payloads`
says, secrets never; and tracing never delays a call.

The product as a child process and a real collector on loopback, which stands for Langfuse too.
"""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.behaviour.product import UPSTREAMS, Answer, configuration, office, over_stdio
from tests.hosts.kit import http_host, recorded_sessions, serving
from tests.telemetry.collector import ATTEMPT, Collector, collecting

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(("payloads", "kept"), [("all", True), ("none", False)])
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
    if payloads == "none":
        assert seen == {"input": None, "output": None}
    else:
        assert CANARY in str(seen["input"])
        assert CANARY in str(seen["output"])


@contextmanager
def hanging() -> Iterator[int]:
    """A port on which somebody listens and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@contextmanager
def refusing() -> Iterator[int]:
    """A port that nobody listens on."""
    yield 9


@contextmanager
def failing() -> Iterator[int]:
    """A collector that answers 500."""
    with collecting(status=500) as collector:
        yield int(collector.url.rpartition(":")[2])


def langfuse_keys(port: int) -> dict[str, str]:
    return {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-test",
        "LANGFUSE_SECRET_KEY": "sk-lf-test",
        "LANGFUSE_BASE_URL": f"http://127.0.0.1:{port}/",
    }


@pytest.mark.parametrize(
    ("collector", "exporter", "message"),
    [
        (failing, "otlp", "Failed to export spans batch"),
        (refusing, "otlp", "traces go to otlp"),
        (hanging, "langfuse", "traces go to langfuse"),
    ],
)
async def test_an_exporter_that_is_down_holds_up_neither_a_call_nor_the_end(
    tmp_path: Path, collector: Any, exporter: str, message: str
) -> None:
    with collector() as port:
        endpoint = f"http://127.0.0.1:{port}/v1/traces"
        path = traced(tmp_path, tracing={"otlp_endpoint": endpoint} if exporter == "otlp" else {})
        async with over_stdio(path, env=langfuse_keys(port) if exporter == "langfuse" else None) as host:
            await host.run("1")
            began = time.monotonic()
            answer = await host.run(PROGRAM)
            took, began = time.monotonic() - began, time.monotonic()
        ended = time.monotonic() - began
    assert answer.value == CANARY
    assert max(took, ended) < 30
    log = (tmp_path / "state" / "logs" / "codemode.log").read_text()
    assert "Traceback" not in log
    assert message in log


@pytest.mark.parametrize("where", ["environment", "settings"])
async def test_langfuse_gets_the_tree_with_kinds_session_and_user_and_values_only_as_configured(
    tmp_path: Path, where: str
) -> None:
    """From the environment also without the package `langfuse`, and with all payloads."""
    is_installed = where == "settings"
    (tmp_path / "langfuse.py").write_text("raise ImportError")
    with collecting() as collector:
        keys = langfuse_keys(int(collector.url.rpartition(":")[2]))
        given = {name.removeprefix("LANGFUSE_").lower(): value for name, value in keys.items()}
        sections: dict[str, Any] = {"tracing": {"langfuse": given}} if is_installed else {}
        state = {"dir": str(tmp_path / "state"), "payloads": "shapes" if is_installed else "all"}
        path = traced(tmp_path, principal="ada", state=state, **sections)
        environment = None if is_installed else {**keys, "PYTHONPATH": str(tmp_path)}
        async with over_stdio(path, env=environment, is_forked=is_installed) as host:
            await host.run("1")
            answer = await host.run(PROGRAM)
    payloads = state["payloads"]
    assert answer.value == CANARY
    assert {("x-langfuse-sdk-name" in headers) for _, headers in collector.requests} == {is_installed}
    assert {(path, headers["authorization"]) for path, headers in collector.requests} == {
        ("/api/public/otel/v1/traces", f"Basic {b64encode(b'pk-lf-test:sk-lf-test').decode()}")
    }
    execution, trace = collector.of_program(answer.content["execution_id"])
    below = {span.name: span for span in trace if span.parent_id == execution.span_id}
    assert set(below) == {"execute_tool traced.echo", "execute_tool github.boom", "execute_tool github.create_issue"}
    assert next(span.name for span in trace if span.span_id == execution.parent_id) == "tools/call execute_code"
    kinds = {span.name: span.attributes["langfuse.observation.type"] for span in (execution, *below.values())}
    assert kinds == {"execution": "span", **dict.fromkeys(below, "tool")}
    assert below["execute_tool github.boom"].attributes["langfuse.observation.level"] == "ERROR"
    ours = [span.attributes for span in (execution, *below.values())]
    assert {told["langfuse.user.id"] for told in ours} == {"ada"}
    assert {told["langfuse.session.id"] for told in ours} == {
        recorded_sessions(tmp_path)[answer.content["execution_id"]]
    }
    texts = [span.attributes["langfuse.observation.input"] for span in (execution, below["execute_tool traced.echo"])]
    assert all((CANARY in text, "***" in text) == (payloads == "all",) * 2 for text in texts)
    assert SECRET.encode() not in collector.raw
