"""A program is one trace, from the host's own span to the spans of the upstreams that it called; names and attributes
are those of OpenTelemetry's conventions.

A real collector on loopback decodes what the product and a real upstream export, over stdio and over HTTP.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import RequestParamsMeta

from tests import fork_server
from tests.answering import served
from tests.behaviour.product import UPSTREAMS, Answer, configuration, office, over_stdio
from tests.hosts.kit import serving
from tests.telemetry.collector import ATTEMPT, Collector, Span, collecting

TRACE, HOST_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HTTP_SPAN = "00f067aa0ba902b7"
HOST = {"traceparent": f"00-{TRACE}-{HOST_SPAN}-01", "tracestate": "vendor=one", "baggage": "team=blue"}
PROGRAM = f"""
from codemode import ToolError
from servers.traced import echo
from servers.github import boom, create_issue

{ATTEMPT}
attempt(boom)
attempt(create_issue, owner="a", repo="b", title="c")
echo(text="hello")
"""
VOLATILE = re.compile(r"_(?:ms|bytes|tokens|saved|id)$|request\.id$|session\.id$|\.port$|\.version$|^user\.id$")
"""Attributes that differ from run to run; only that they are there is compared."""


@contextmanager
def upstreams(folder: Path, otlp: str, transport: str) -> Iterator[dict[str, Any]]:
    """The upstream that takes part in tracing, over either transport, and one that does not."""
    script, environment = UPSTREAMS / "traced.py", {"TRACED_LOG": str(folder / "contexts"), "TRACED_OTLP": otlp}
    others = office(folder, "github")
    if transport == "stdio":
        yield {**others, "traced": {**fork_server.upstream(str(script)), "env": environment}}
        return
    with served(script, env=environment) as url:
        yield {**others, "traced": {"url": url}}


def configured(folder: Path, servers: dict[str, Any], collector: Collector, **tracing: Any) -> Path:
    rules = [{"deny": "github/create_issue", "reason": "By hand."}]
    sections = {"tracing": {"otlp_endpoint": collector.endpoint, **tracing}, "permissions": {"rules": rules}}
    return configuration(folder, servers, **sections)


async def run(client: Client, code: str, **meta: str) -> Answer:
    given = cast("RequestParamsMeta", meta)
    return Answer(await client.call_tool("execute_code", {"code": code}, meta=given, read_timeout_seconds=60))


def received(folder: Path) -> dict[str, str | None]:
    """The trace context that the upstream was sent with its one call."""
    found: dict[str, str | None] = json.loads((folder / "contexts").read_text())
    return found


def tree(spans: list[Span]) -> list[list[str]]:
    """For each span the names from the root of the trace down to it."""
    by_id = {span.span_id: span for span in spans}

    def path(span: Span) -> list[str]:
        above = path(by_id[span.parent_id]) if span.parent_id in by_id else [f"({span.parent_id})"]
        return [*above, f"{span.service} {span.kind}: {span.name}"]

    return sorted(path(span) for span in spans)


def steady(span: Span) -> dict[str, Any]:
    """The attributes, with `…` for the values that differ from run to run, and without those of the sandbox."""
    found = {name: value for name, value in span.attributes.items() if "isolation" not in name}
    return {name: "…" if VOLATILE.search(name) else value for name, value in found.items()}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_program_is_one_tree_from_the_host_s_span_to_the_upstream_s_own_spans(
    tmp_path: Path, transport: str
) -> None:
    with collecting() as collector, upstreams(tmp_path, collector.endpoint, transport) as servers:
        async with over_stdio(configured(tmp_path, servers, collector)) as host:
            await host.run("1")  # from here on the exporter is set up
            answer = await run(host.client, PROGRAM, **HOST)
    assert answer.value == "hello"
    spans = [span for span in collector.spans if span.trace_id == TRACE]
    us = "codemode-server"
    root = [f"({HOST_SPAN})", f"{us} server: tools/call execute_code"]
    program = [*root, f"{us} internal: execution"]
    echo = [*program, f"{us} internal: execute_tool traced.echo", f"{us} client: MCP send tools/call echo"]
    assert tree(spans) == [
        root,
        program,
        [*program, f"{us} internal: execute_tool github.boom"],
        [*program, f"{us} internal: execute_tool github.boom", f"{us} client: MCP send tools/call boom"],
        [*program, f"{us} internal: execute_tool github.create_issue"],
        echo[:-1],
        echo,
        [*echo, "upstream server: tools/call echo"],
        [*echo, "upstream server: tools/call echo", "upstream internal: look up"],
    ]
    client = next(span for span in spans if span.name == "MCP send tools/call echo")
    assert received(tmp_path) == {**HOST, "traceparent": f"00-{TRACE}-{client.span_id}-01"}


async def test_names_and_attributes_are_those_of_the_conventions(tmp_path: Path) -> None:
    with collecting() as collector, upstreams(tmp_path, collector.endpoint, "http") as servers:
        async with over_stdio(configured(tmp_path, servers, collector)) as host:
            await host.run("1")
            await run(host.client, PROGRAM, **HOST)
    ours = [span for span in collector.spans if span.trace_id == TRACE and span.service == "codemode-server"]
    request = {
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "…",
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "…",
    }
    sent = {"jsonrpc.request.id": "…", "mcp.method.name": "tools/call"}
    failed = {"langfuse.observation.level": "ERROR"}
    ran = {
        "codemode.execution_id": "…",
        "langfuse.session.id": "…",
        "langfuse.user.id": "default",
    }
    call = {
        **ran,
        "codemode.effect": "unknown",
        "codemode.result_bytes": "…",
        "codemode.result_tokens": "…",
        "gen_ai.operation.name": "execute_tool",
        "langfuse.observation.type": "tool",
    }
    allowed = {"codemode.decision": "allow", "codemode.decision_reason": "permissions.default is 'allow'"}
    denied = {
        "codemode.decision": "deny",
        "codemode.decision_reason": "rule 1 of permissions.rules (deny: github/create_issue): By hand.",
    }
    assert {f"{span.kind} {span.name}": steady(span) for span in ours} == {
        "server tools/call execute_code": {
            **request,
            "gen_ai.tool.name": "execute_code",
        },
        "internal execution": {
            **ran,
            "codemode.calls": 3,
            "codemode.program_ms": "…",
            "codemode.result_tokens": "…",
            "codemode.status": "succeeded",
            "codemode.upstream_ms": "…",
            "langfuse.observation.input": f"sha256 {sha256(PROGRAM.encode()).hexdigest()}, {len(PROGRAM)} characters",
            "langfuse.observation.output": '"str of 5"',
            "langfuse.observation.type": "span",
            "session.id": "…",
            "user.id": "…",
        },
        "internal execute_tool github.boom": {
            **call,
            **allowed,
            **failed,
            **named("github", "boom", 1, "failed"),
            "error.type": "failed",
            "langfuse.observation.input": "{}",
            "langfuse.observation.status_message": "failed",
        },
        "client MCP send tools/call boom": sent,
        "internal execute_tool github.create_issue": {
            **call,
            **denied,
            **failed,
            **named("github", "create_issue", 2, "refused"),
            "error.type": "refused",
            "langfuse.observation.input": '{"owner": "str of 1", "repo": "str of 1", "title": "str of 1"}',
            "langfuse.observation.status_message": "refused",
        },
        "internal execute_tool traced.echo": {
            **call,
            **allowed,
            **named("traced", "echo", 3, "succeeded"),
            "langfuse.observation.input": '{"text": "str of 5"}',
            "langfuse.observation.output": '"str of 5"',
        },
        "client MCP send tools/call echo": sent,
    }


def named(server: str, tool: str, seq: int, status: str) -> dict[str, Any]:
    """What is a call's own."""
    return {
        "codemode.seq": seq,
        "codemode.server": server,
        "codemode.status": status,
        "codemode.tool": tool,
        "gen_ai.tool.name": f"{server}.{tool}",
    }


@pytest.mark.parametrize("where", ["meta", "header", "both"])
async def test_over_http_the_header_is_the_parent_where_the_request_itself_names_none(
    tmp_path: Path, where: str
) -> None:
    header = f"00-{TRACE}-{HTTP_SPAN}-01"
    with collecting() as collector:
        path = configuration(tmp_path, {}, tracing={"otlp_endpoint": collector.endpoint})
        with serving(path) as served:
            headers = served.headers | ({"traceparent": header} if where != "meta" else {})
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(served.url, http_client=http), mode="legacy") as client,
            ):
                await run(client, "1")
                await run(client, "2", **(HOST if where != "header" else {}))
    parent = HTTP_SPAN if where == "header" else HOST_SPAN
    *_, span = [span for span in collector.spans if span.name == "tools/call execute_code" and span.trace_id == TRACE]
    assert span.parent_id == parent


@pytest.mark.parametrize("how", ["as it is", "setting", "flag"])
async def test_without_tracing_of_mcp_no_call_is_seen_and_the_upstream_is_sent_nothing(
    tmp_path: Path, how: str
) -> None:
    is_traced, flags = how == "as it is", ["serve", "--no-mcp-tracing"] if how == "flag" else []
    with collecting() as collector, upstreams(tmp_path, collector.endpoint, "stdio") as servers:
        path = configured(tmp_path, servers, collector, **({"mcp": False} if how == "setting" else {}))
        async with over_stdio(path, flags=flags) as host:
            await host.run("1")
            answer = await run(host.client, PROGRAM, **HOST)
    assert answer.value == "hello"
    names = {span.name for span in collector.spans if span.trace_id == TRACE}
    assert ("execute_tool traced.echo" in names, "MCP send tools/call echo" in names) == (is_traced, is_traced)
    sent = received(tmp_path)
    assert (sent["traceparent"] is not None, sent["baggage"]) == (is_traced, HOST["baggage"] if is_traced else None)
    assert names >= {"tools/call execute_code", "execution"}
    assert is_traced or not [span.name for span in collector.spans if span.kind == "client"]


async def test_a_start_with_all_its_servers_is_one_trace(tmp_path: Path) -> None:
    """Each request to a server that starts was a trace, so that those of programs were hard to find among them."""
    servers = {**office(tmp_path, "github", "google_drive"), "dead": {"command": "/nonexistent/server"}}
    servers["ending"] = {"command": sys.executable, "args": ["-c", "input()"]}
    with collecting() as collector:
        async with over_stdio(configured(tmp_path, servers, collector)) as host:
            await host.run("1")

            async def has_started() -> bool:
                return any(span.name == "start" for span in collector.spans)

            await host.until(has_started)
    us = "codemode-server"
    by_root: dict[str, list[str]] = {}
    for path in tree([span for span in collector.spans if "listen" not in span.name]):
        by_root.setdefault(path[1], []).append(" > ".join(it.removeprefix(f"{us} ") for it in path[2:]))
    start = by_root.pop(f"{us} internal: start")
    for server in ("github", "google_drive"):
        sent = [f"internal: connect {server} > client: MCP send {it}" for it in ("server/discover", "tools/list")]
        assert {f"internal: connect {server}", *sent} <= set(start)
    assert "internal: connect ending" in start
    again = {f"{us} internal: connect ending"}
    assert {root for root in by_root if " server: " not in root} <= again, "and what the host asks for"
    (failed, *_) = [span for span in collector.spans if span.name == "connect ending"]
    assert failed.attributes["error.type"]
