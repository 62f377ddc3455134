"""Upstreams behind an address, over loopback for real: both transports, both eras, refusals, restarts, redirects."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import httpx2
import pytest

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.calls import RetryReason
from codemode_server.domain.errors import AnswerLost, CallTimedOut, UpstreamUnavailable
from codemode_server.domain.tools import UpstreamState
from codemode_server.upstreams.bounded_http import Bounds
from codemode_server.upstreams.messages import NO_MESSAGE
from codemode_server.upstreams.progress import CallProgress
from tests import fork_server
from tests.answering import Asked, answering, free_port
from tests.auth.test_mix_up import scripted
from tests.upstreams.kit import SERVERS, Kit

pytestmark = pytest.mark.slow

KINDS: tuple[tuple[Literal["http", "sse"], Literal["auto", "legacy"]], ...] = (
    ("http", "auto"),
    ("http", "legacy"),
    ("sse", "auto"),
    ("sse", "legacy"),
)
EACH = pytest.mark.parametrize(("transport", "protocol"), KINDS)


@asynccontextmanager
async def serving(
    kit: Kit, transport: str, port: int, log: Path | None = None
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    arguments = fork_server.command(str(SERVERS / "modern.py"), transport, str(port), *([str(log)] if log else []))
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await kit.until(lambda: _answers(port))
        yield server
    finally:
        await killed(kit, server, port)


async def killed(kit: Kit, server: subprocess.Popen[bytes], port: int) -> None:
    """Kill the server, and wait until its port is free."""
    server.kill()
    server.wait()
    await kit.until(lambda: not _answers(port))


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def address(transport: str, port: int) -> str:
    return f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@EACH
async def test_tools_are_listed_called_and_cancelled(
    kit: Kit, tmp_path: Path, transport: Literal["http", "sse"], protocol: Literal["auto", "legacy"]
) -> None:
    log, port = tmp_path / "log", free_port()
    settings = ServerSettings(url=address(transport, port), transport=transport, protocol=protocol, timeout=2.0)
    async with serving(kit, transport, port, log), kit.pool({"s": settings}) as pool:
        assert kit.listing(pool, "s").protocol == ("2026-07-28" if protocol == "auto" else "2025-11-25")
        assert (await pool.call_tool("s", "add", {"a": 1, "b": 2})).value == 3
        with pytest.raises(CallTimedOut):
            await pool.call_tool("s", "hang", {})
        await kit.until(lambda: "hang cancelled" in log.read_text())


@EACH
async def test_a_server_that_comes_back_is_used_again(
    kit: Kit, transport: Literal["http", "sse"], protocol: Literal["auto", "legacy"]
) -> None:
    """Its sessions are gone; the call it refused for that was not carried out, and is repeated. Calls of the newer
    protocol need no session, and the loss of an SSE connection is noticed before the next call."""
    port, retries = free_port(), list[RetryReason]()
    settings = ServerSettings(url=address(transport, port), transport=transport, protocol=protocol)
    async with serving(kit, transport, port) as first, kit.pool({"s": settings}) as pool:
        assert (await pool.call_tool("s", "add", {"a": 1, "b": 2})).value == 3
        await killed(kit, first, port)
        async with serving(kit, transport, port):
            if transport == "sse":
                await kit.until(lambda: kit.is_ready(pool, "s"))
            progress = CallProgress(on_retry=retries.append)
            assert (await pool.call_tool("s", "add", {"a": 2, "b": 2}, progress=progress)).value == 4
            assert retries == ([RetryReason.EXPIRED_SESSION] if (transport, protocol) == ("http", "legacy") else [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_message_stays_a_post_where_it_is_redirected(kit: Kit, status: int) -> None:
    with scripted() as server:
        server.answer("/old", b"", status, location="/mcp")
        async with kit.pool({"s": ServerSettings(url=f"{server.address}/old")}):
            assert server.got[0].removeprefix("POST /old ") == server.got[1].removeprefix("POST /mcp ")
            assert '"jsonrpc"' in server.got[1]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_circle_of_redirects_is_named_in_one_line(kit: Kit, transport: Literal["http", "sse"]) -> None:
    with scripted() as server:
        server.answer("/a", b"", 307, location="/b")
        server.answer("/b", b"", 307, location="/a")
        async with kit.pool({"s": ServerSettings(url=f"{server.address}/a", transport=transport)}) as pool:
            error = kit.listing(pool, "s").error
        assert error == f"{server.address}/a can't be reached: it redirects in a circle to {server.address}/a"


ANSWER = '{"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}'


async def answered(kind: str | None, body: str) -> httpx2.Response:
    """The response to request 7 as mcp gets it."""
    bounds = Bounds(lambda: 10_000, answers_in_posts=True)

    async def pieces() -> AsyncGenerator[bytes]:
        yield body.encode()

    response = httpx2.Response(200, content=pieces(), headers={"content-type": kind} if kind else {})
    async with httpx2.AsyncClient(
        transport=httpx2.MockTransport(lambda _: response), event_hooks={"response": [bounds.bound]}
    ) as client:
        return await client.post("http://h/", json={"jsonrpc": "2.0", "id": 7, "method": "tools/list"})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *((kind, ANSWER) for kind in (None, "text/plain", "text/html; charset=utf-8", "application/vnd.api+json")),
        ("application/json", "\ufeff" + ANSWER),
        ("application/json", "<br />\n<b>Warning</b>: no {index} in x.php<br />\n" + ANSWER),
        ("application/json", f"[{ANSWER}]"),
        ("application/json", f"event: message\ndata: {ANSWER}\n\n"),
        ("application/json", ANSWER.replace("7", '"7"')),
        ("text/event-stream", f"data: {ANSWER}"),
        ("text/event-stream", f"data: ready\n\nevent: result\ndata: {ANSWER}\n\n"),
        ("text/event-stream", f'data: [{{"jsonrpc": "2.0", "method": "x"}}, {ANSWER}]\n\n'),
    ],
)
async def test_an_answer_is_read_whatever_its_content_type_and_what_stands_around_it(
    kind: str | None, body: str
) -> None:
    read = await answered(kind, body)
    lines = [line.removeprefix("data: ") for line in read.text.split("\n") if line.strip()]
    assert read.headers["content-type"] == ("text/event-stream" if kind == "text/event-stream" else "application/json")
    assert json.loads(lines[-1]) == json.loads(ANSWER)
    assert all(json.loads(line)["jsonrpc"] for line in lines)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '{"message": "model is full"}'),
        ("text/event-stream", 'event: error\ndata: {"message": "model is full"}\n\n'),
        ("text/event-stream", "event: error\ndata: model is full\n\n"),
    ],
)
async def test_an_answer_that_is_no_message_is_an_error_with_its_reason(kind: str, body: str) -> None:
    read = await answered(kind, body)
    error = json.loads(read.text.removeprefix("data: "))
    assert (error["id"], error["error"]["code"]) == (7, NO_MESSAGE)
    assert "model is full" in error["error"]["message"]


async def test_an_address_without_server_says_so_without_its_secrets(kit: Kit) -> None:
    url = f"http://user:hunter2@127.0.0.1:{free_port()}/mcp?key=hunter2"
    async with kit.pool({"s": ServerSettings(url=url)}) as pool:
        listing = kit.listing(pool, "s")
        assert listing.state is UpstreamState.FAILED
        assert listing.error is not None
        assert "can't be reached" in listing.error
        assert "hunter2" not in listing.error
        with pytest.raises(UpstreamUnavailable, match="can't be reached"):
            await pool.call_tool("s", "add", {})


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Authorization": "Bearer right-here"}, "it refuses the Authorization header of its entry in upstream.yaml"),
        ({}, "it needs a token, as an Authorization header in its entry in upstream.yaml"),
    ],
)
async def test_a_refusal_is_told_with_its_status_and_what_the_person_can_do(
    kit: Kit, transport: Literal["http", "sse"], headers: dict[str, str], said: str
) -> None:
    with scripted() as server:
        server.answer("/mcp", b"", 401)
        settings = ServerSettings(url=f"{server.address}/mcp", transport=transport, headers=headers)
        async with kit.pool({"s": settings}) as pool:
            error = kit.listing(pool, "s").error
            assert error == f"{server.address}/mcp answered with HTTP 401 Unauthorized: " + said
        assert server.authorizations[0] == headers.get("Authorization")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_authorization_never_follows_a_redirect_to_another_host(
    kit: Kit, transport: Literal["http", "sse"]
) -> None:
    with scripted() as elsewhere, scripted() as here:
        elsewhere.answer("/mcp", b"")
        here.answer("/mcp", b"", 307, location=f"{elsewhere.address}/mcp")
        headers = {"Authorization": "Bearer right-here"}
        settings = ServerSettings(url=f"{here.address}/mcp", transport=transport, headers=headers)
        async with kit.pool({"s": settings}) as pool:
            assert kit.listing(pool, "s").state is UpstreamState.FAILED
        assert here.authorizations[0] == "Bearer right-here"  # positive control: it was sent where it belongs
        assert elsewhere.got == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"Session not found"),
        (404, b""),
        (401, b""),
        (403, b"not yours"),
        (200, b'{"jsonrpc": "2.0", "id": ID, "error": {"code": -32602, "message": "no such task"}}'),
    ],
)
async def test_a_task_whose_poll_is_refused_was_sent_and_its_outcome_is_not_known(
    kit: Kit, status: int, body: bytes
) -> None:
    """A server that was restarted meanwhile answers so, and the task may have done its work before: to call the tool
    once more would do it twice."""
    got: list[str] = []
    tool = {"name": "pay", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"task": {"taskId": "t", "status": "working", "pollInterval": 1}},
    }

    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        message = json.loads(asked.body or b"{}")
        method, headers = message.get("method", ""), {"content-type": "application/json", "mcp-session-id": "1"}
        got.append(method)
        if method in results:
            return 200, headers, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[method]}).encode()
        if method == "tasks/get":
            return status, headers, body.replace(b"ID", str(message["id"]).encode())
        return (202 if method.startswith("notifications/") else 405), {}, b""

    with answering(answer) as url:
        async with kit.pool({"s": ServerSettings(url=f"{url}/mcp", protocol="legacy")}) as pool:
            with pytest.raises(AnswerLost, match="whether tool 'pay' acted is not known"):
                await pool.call_tool("s", "pay", {}, needs_task=True)
    assert got.count("tools/call") == 1
