"""Whatever a host sends at first, in whatever form, it gets the answers that the server alone would give, each once.

The opening and the server behind it, over pipes, beside a server that reads the same lines by itself.
"""

from __future__ import annotations

import io
import json
import os
from typing import Any, TextIO, cast

import anyio
import pytest

from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.principals import Session
from codemode_server.mcp_server.opening import FirstLists, HostStreams, Opening
from codemode_server.mcp_server.server import McpServer
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.support.json_values import replace_lone_surrogates

pytestmark = pytest.mark.anyio

CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
Line = bytes | dict[str, Any]


def request(number: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(number: Any = 1, **changed: Any) -> dict[str, Any]:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    return request(number, "initialize", **params | changed)


def modern(number: Any, method: str, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    return request(number, method, _meta=ENVELOPE | (meta or {}), **params)


def encoded(line: Line) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
LISTS = [request(5, "prompts/list"), request(6, "resources/list"), request(7, "resources/templates/list")]
MODERN_LISTS = [modern(line["id"], line["method"]) for line in LISTS]
LIST = request(2, "tools/list")
CALL = request(3, "tools/call", name="list_dir", arguments={})
CURSED_ID = b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping","params":{}}\n'
NESTED = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 300 + b"1" + b"}" * 301 + b"\n"
DUPLICATE_KEYS = b'{"jsonrpc":"2.0","id":1,"id":9,"method":"initialize","method":"ping","params":{}}\n'
LARGE = {"a": "x" * 10_000_000}
EVERY_CAPABILITY = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {"applyDefaults": True}, "url": {}},
    "experimental": {"x": {}},
    "extensions": {"a/b": {"mimeTypes": ["x"]}},
}


def listen(number: Any, **wanted: Any) -> dict[str, Any]:
    return modern(number, "subscriptions/listen", notifications=wanted)


def client(**changed: Any) -> dict[str, Any]:
    return initialize(clientInfo=CLIENT | changed)


def enveloped(name: str, value: Any) -> dict[str, Any]:
    return modern(1, "server/discover", {f"io.modelcontextprotocol/{name}": value})


LEGACY: dict[str, list[Line]] = {
    "a call at once": [initialize(), CALL],
    "all at once": [initialize(), INITIALIZED, request(7, "ping"), LIST, CALL],
    "not JSON at first": [b"{oops\n", initialize(), LIST],
    "not JSON later": [initialize(), b"{oops\n", LIST],
    "not UTF-8": [encoded(client(name="X")).replace(b"X", b"\xff"), LIST],
    "10 MB in the handshake": [initialize(_meta=LARGE), LIST],
    "nested deeply": [NESTED, initialize(4), LIST],
    "keys twice": [DUPLICATE_KEYS, initialize(4), LIST],
    "a batch": [json.dumps([initialize(), LIST]).encode() + b"\n", initialize()],
    "an unknown method at first": [request(7, "nonsense/x"), initialize(), LIST],
    "another version": [initialize(protocolVersion="1999-01-01"), LIST],
    "ids that are strings": [initialize("a"), request("", "ping"), request("b", "tools/list")],
    "ids that are used again": [initialize(0), INITIALIZED, request(0, "ping"), request(0, "tools/list")],
    "an id that is a float": [initialize(1.0), initialize(1.5), LIST],
    "an id that can't be written": [CURSED_ID, initialize(), CURSED_ID, LIST],
    "a notification at first": [INITIALIZED, initialize(), LIST],
    "a cancellation of what is answered": [initialize(), INITIALIZED, LIST, CANCELLED, CALL],
    "parameters that are a list": [initialize(), LIST | {"params": []}],
    "all lists": [initialize(), *LISTS, LIST, *LISTS],
    "a cursor": [initialize(), request(2, "tools/list", cursor="x")],
    "metadata": [
        initialize(_meta={"progressToken": 0}),
        request(2, "tools/list", _meta={"progressToken": "a", "b": 1}),
    ],
    "metadata that is no object": [initialize(), request(2, "tools/list", _meta="x")],
    "a wrong progress token": [initialize(), request(2, "tools/list", _meta={"progressToken": 1.5})],
    "every capability": [initialize(capabilities=EVERY_CAPABILITY), LIST],
    "an answer and a request in one": [initialize() | {"error": {"code": 1, "message": "x"}}, initialize(5), LIST],
    "an answer at first": [{"jsonrpc": "2.0", "id": 1, "result": {}}, initialize(4), LIST],
    "the newest protocol after an older one": [initialize(), modern(2, "tools/list"), modern(7, "server/discover")],
    "a handshake that claims the newest protocol": [initialize(_meta=ENVELOPE), LIST],
}
MODERN: dict[str, list[Line]] = {
    "a call at once": [modern(3, "tools/call", name="list_dir", arguments={})],
    "all lists": [*MODERN_LISTS, modern(2, "tools/list"), *MODERN_LISTS],
    "another version": [enveloped("protocolVersion", "2027-01-01"), modern(2, "tools/list")],
    "no client": [enveloped("clientInfo", None), modern(2, "tools/list")],
    "a wrong capability": [enveloped("clientCapabilities", {"roots": 5}), modern(2, "tools/list")],
    "metadata": [modern(1, "server/discover", {"progressToken": 1}), modern(2, "tools/list", {"a/b": 1})],
    "a subscription": [listen(1, toolsListChanged=True, promptsListChanged=False), modern(2, "tools/list")],
    "a subscription to a resource": [listen(1, resourceSubscriptions=["a"]), modern(2, "tools/list")],
    "a wrong subscription": [modern(1, "subscriptions/listen", notifications=5), modern(2, "tools/list")],
    "a handshake later": [modern(1, "server/discover"), initialize(5), modern(2, "tools/list")],
    "a ping": [modern(1, "server/discover"), modern(6, "ping"), modern(2, "tools/list")],
}
CHANGES = listen("listen:0", toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True)
USUAL: dict[str, list[Line]] = {
    "an older protocol": [client(title="a"), INITIALIZED, request(7, "ping"), LIST],
    "all lists": [initialize(), INITIALIZED, *LISTS, LIST],
    "with progress tokens": [initialize(_meta={"progressToken": 0}), INITIALIZED, LIST],
    "the newest protocol": [modern(1, "server/discover"), modern(2, "tools/list", {"progressToken": 1})],
    "Claude Code": [
        modern("a", "server/discover"),
        CHANGES,
        modern(0, "server/discover"),
        *MODERN_LISTS,
        modern(1, "tools/list"),
    ],
}


@pytest.mark.parametrize(
    "wanted",
    [
        {"resourceSubscriptions": ["cfg://a", "no://such"]},
        {"resourcesListChanged": True},
        {"resourceSubscriptions": ["cfg://a"], "resourcesListChanged": True, "promptsListChanged": True},
    ],
)
async def test_what_is_not_announced_is_neither_declared_nor_acknowledged(wanted: dict[str, Any]) -> None:
    """No list or text of a resource of ours changes."""
    conversation: list[Line] = [modern(1, "server/discover"), listen(3, **wanted), modern("last", "server/discover")]
    kept = {name: it for name, it in wanted.items() if name == "promptsListChanged"}
    for with_opening in (True, False):
        given = await answers(conversation, with_opening=with_opening)
        (discovered,) = [it["result"] for it in given if "capabilities" in it.get("result", {})]
        assert discovered["capabilities"]["resources"] == {"listChanged": False, "subscribe": False}
        (acknowledged,) = [it["params"] for it in given if it.get("method", "").endswith("acknowledged")]
        assert acknowledged["notifications"] == kept


def subscription(answer: dict[str, Any]) -> Any:
    """Which subscription a notification is about."""
    return answer.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/subscriptionId")


class Start:
    """The last run has left this list, or none."""

    def __init__(self, tools: list[dict[str, Any]] | None = None) -> None:
        self._tools = tools

    def lists(self) -> FirstLists | None:
        return None if self._tools is None else FirstLists(self._tools)

    def load_server(self) -> None:
        pass


async def answers(lines: list[Line], *, with_opening: bool) -> list[dict[str, Any]]:
    """All answers to lines that are sent at once, in the order of their ids; then the host goes."""
    (host_reads, we_write), (we_read, host_writes) = os.pipe(), os.pipe()
    received = os.fdopen(we_read, "rb")
    sent = os.fdopen(we_write, "wb")
    with os.fdopen(host_writes, "wb") as host, os.fdopen(host_reads, "rb") as answered:
        streams = HostStreams(received, sent)
        listed = definitions(Settings())
        opening = Opening(streams, Start(listed))

        def send() -> None:
            for line in lines:
                host.write(encoded(line))
            host.flush()

        server = McpServer(listed)
        server.set_failed(SettingsError("no file"))
        found: list[dict[str, Any]] = []

        def read_until_the_last() -> None:
            while not any(answer.get("id") == "last" for answer in found):
                found.append(json.loads(answered.readline()))

        def read_the_rest() -> None:
            found.extend(map(json.loads, answered))

        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                if with_opening:
                    await anyio.to_thread.run_sync(opening.run)
                received, sent_by_server = (anyio.wrap_file(cast("TextIO", it)) for it in opening.streams())
                await server.run_connection(Session("s"), received, sent_by_server)
                sent.close()

            tasks.start_soon(serve)
            tasks.start_soon(anyio.to_thread.run_sync, send)
            await anyio.to_thread.run_sync(read_until_the_last)
            host.close()
            await anyio.to_thread.run_sync(read_the_rest)
    found.remove(next(answer for answer in found if answer.get("id") == "last"))
    return sorted(found, key=lambda answer: (str(answer.get("id")), json.dumps(answer, sort_keys=True)))


CONVERSATIONS = {f"older: {name}": [*lines, request("last", "ping")] for name, lines in LEGACY.items()} | {
    f"newest: {name}": [*lines, modern("last", "server/discover")] for name, lines in MODERN.items()
}


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_what_the_opening_answers_is_what_the_server_alone_answers(conversation: list[Line]) -> None:
    assert await answers(conversation, with_opening=True) == await answers(conversation, with_opening=False)


@pytest.mark.parametrize("lines", USUAL.values(), ids=USUAL)
async def test_what_hosts_usually_send_does_not_wait_for_the_server(lines: list[Line]) -> None:
    """The control: what is compared above is not the server's answer twice."""
    sent = io.BytesIO()
    streams = HostStreams(io.BytesIO(b"".join(map(encoded, lines))), sent)
    await anyio.to_thread.run_sync(Opening(streams, Start(definitions(Settings()))).run)
    asked = [line["id"] for line in lines if isinstance(line, dict) and "id" in line]
    given = [json.loads(answer) for answer in sent.getvalue().splitlines()]
    assert [answer.get("id", subscription(answer)) for answer in given] == asked


async def test_where_the_last_run_has_left_no_list_the_server_answers() -> None:
    lines, sent = USUAL["an older protocol"], io.BytesIO()
    opening = Opening(HostStreams(io.BytesIO(b"".join(map(encoded, lines))), sent), Start())
    await anyio.to_thread.run_sync(opening.run)
    assert "tools" not in json.loads(sent.getvalue().splitlines()[-1])["result"], "the control: others are answered"
    assert opening.definitions is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00 \\ud800 \n \\\\"', "\U0001f600 \\ud800 \n \\\\"),
        (r'"\ud800"', "\ufffd"),
        (r'"\uDFFF\uD800"', "\ufffd\ufffd"),
        (r'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\ud83d\u0041"', "\ufffdA"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'{"\ud800": 1}', {"\ufffd": 1}),
    ],
)
async def test_half_a_character_is_replaced_and_nothing_else(text: str, value: object) -> None:
    """`\\ud800` in JSON is no text that can be written; a request that holds one is answered all the same."""
    data = bytearray(text.encode())
    replace_lone_surrogates(data, "\ufffd")
    assert json.loads(data) == value


@pytest.mark.parametrize("path", [r"\ud83d\ude00", r"\ud800"], ids=["a whole one, as the positive control", "half"])
async def test_a_request_with_half_a_character_is_answered(path: str) -> None:
    call = json.dumps(request(3, "tools/call", name="list_dir", arguments={"path": "?"})).replace('"?"', f'"{path}"')
    found = await answers(
        [initialize(), INITIALIZED, call.encode() + b"\n", request("last", "ping")], with_opening=True
    )
    assert [answer["id"] for answer in found] == [1, 3]
