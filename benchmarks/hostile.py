"""The hostile upstream of the attacks: `hostile.py` over stdio, `hostile.py http` over HTTP, whose port it prints.

Harmless until its tool `attack` is called with the name of an attack in `how`. Standard library only, and at a low
priority: what counts is how the product copes, not that two programs share a processor.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

MIB = 2**20
VERSION = "2025-06-18"
ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
CHECKED = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {"name": "attack", "description": "Do it.", "inputSchema": ANY},
    {"name": "checked", "inputSchema": CHECKED},
]
SECONDS = 8.0
"""How long what has no end goes on."""


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def many(item: str, size: int) -> str:
    """A JSON array of so many bytes, written without making its values."""
    return "[" + f"{item}," * (size // (len(item) + 1)) + item + "]"


BLOCK = '{"type":"text","text":"x"}'


def structured(value: str) -> str:
    return f'{{"content":[],"structuredContent":{{"x":{value}}}}}'


RESULTS: dict[str, Callable[[], str]] = {
    "text of 16 MB": lambda: json.dumps(text("x" * 16 * 10**6)),
    "text of 60 MB": lambda: json.dumps(text("x" * (60 * 10**6))),
    "objects, 15 MB": lambda: structured(many('{"a":1}', 15 * 10**6)),
    "objects, 60 MB": lambda: structured(many('{"a":1}', 60 * 10**6)),
    "JSON in a text, 15 MB": lambda: json.dumps(text(many("[]", 15 * 10**6))),
    "deep": lambda: structured("[" * 5_000 + "]" * 5_000),
    "blocks, 200,000": lambda: f'{{"content":{many(BLOCK, 27 * 200_000)}}}',
    "link": lambda: '{"content":[{"type":"resource_link","uri":"x://big","name":"big"}]}',
}
"""The results that are too much, as JSON texts."""
LISTINGS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "tools of 53 MB": lambda: [
        {"name": f"t{n}", "description": "word " * 2**20, "inputSchema": ANY} for n in range(10)
    ],
    "a schema of 4 MB": lambda: [
        {"name": "wide", "inputSchema": {"type": "object", "properties": {f"p{n}": ANY for n in range(80_000)}}}
    ],
}


def deflated(data: bytes, wbits: int) -> bytes:
    """Compressed, so that more of the same stream may follow: 64 MiB in 64 KB."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, wbits)
    return compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)


class Prepared:
    """What the next attack needs, made before it, so that what it costs to make is not measured."""

    result = json.dumps(text("done"))
    listing = json.dumps({"tools": TOOLS})
    bomb = b""

    @classmethod
    def prepare(cls, how: str) -> None:
        cls.result = RESULTS[how]() if how in RESULTS else json.dumps(text("done"))
        cls.listing = json.dumps({"tools": LISTINGS[how]() + TOOLS if how in LISTINGS else TOOLS})
        cls.bomb = deflated(b"[1,2,3]," * (64 * MIB // 8), -zlib.MAX_WBITS) if how == "gzip bomb" else b""


def initialized() -> dict[str, Any]:
    capabilities = {"tools": {"listChanged": True}, "resources": {}}
    return {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": {"name": "x", "version": "1"}}


# --- stdio ---

WRITING = threading.Lock()


def write(line: str) -> None:
    with WRITING:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def answer(request_id: object, result: str) -> None:
    write(f'{{"jsonrpc":"2.0","id":{json.dumps(request_id)},"result":{result}}}')


def storm(request: dict[str, Any]) -> None:
    """Notifications without end, and noise on stderr."""
    token = (request["params"].get("_meta") or {}).get("progressToken", 0)
    lines = [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 500}},
        {"jsonrpc": "2.0", "id": 7, "method": "roots/list"},
        {"jsonrpc": "2.0", "id": -7, "result": {}},
    ]
    chunk = "\n".join(map(json.dumps, lines * 50))
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        write(chunk)


def progress(request: dict[str, Any]) -> None:
    """Reports of progress on the call itself, each with a long message."""
    token = (request["params"].get("_meta") or {}).get("progressToken", 0)
    until, done = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        done += 1
        params = {"progressToken": token, "progress": done, "message": "m" * 100_000}
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))


def noise() -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        os.write(2, b"noise " * 10_000)


def line_without_end() -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        os.write(1, b"[1,2,3]," * 8_192)


def attack_over_stdio(request: dict[str, Any]) -> None:
    arguments = request["params"]["arguments"]
    if "prepare" in arguments:
        Prepared.prepare(arguments["prepare"])
        answer(request["id"], json.dumps(text("done")))
        return
    how = arguments.get("how", "")
    if how in LISTINGS:
        write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    match how:
        case "notifications":
            storm(request)
        case "progress":
            progress(request)
        case "stderr":
            noise()
        case "a line without end":
            line_without_end()
        case "never":
            return
    answer(request["id"], Prepared.result)


def over_stdio() -> None:
    has_attacked = False
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method", "")
        if method == "initialize":
            answer(message["id"], json.dumps(initialized()))
        elif method == "tools/list":
            answer(message["id"], Prepared.listing if has_attacked else json.dumps({"tools": TOOLS}))
        elif method == "tools/call":
            has_attacked = has_attacked or "how" in message["params"]["arguments"]
            threading.Thread(target=attack_over_stdio, args=(message,), daemon=True).start()
        elif method == "resources/read":
            blob = "QUJD" * (25 * 10**6)
            answer(message["id"], f'{{"contents":[{{"uri":"x://big","blob":"{blob}"}}]}}')
        elif "id" in message and method:
            error = {"code": -32601, "message": f"no {method}"}
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))


# --- HTTP ---


def send_head(connection: socket.socket, kind: str, *more: str, status: str = "200 OK") -> None:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more]
    connection.sendall("\r\n".join([*head, "", ""]).encode())


def send_json(connection: socket.socket, body: str) -> None:
    data = body.encode()
    send_head(connection, "application/json", f"Content-Length: {len(data)}")
    connection.sendall(data)


def send_without_end(connection: socket.socket, piece: bytes) -> None:
    until = time.monotonic() + SECONDS
    chunk = piece * max(1, 65_536 // len(piece))
    while time.monotonic() < until:
        connection.sendall(chunk)


def attack_over_http(connection: socket.socket, request: dict[str, Any]) -> None:
    arguments = request["params"]["arguments"]
    if "prepare" in arguments:
        Prepared.prepare(arguments["prepare"])
    how = arguments.get("how", "")
    opened = f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":'
    start = (opened + '{"content":[{"type":"text","text":"').encode()
    match how:
        case "JSON without end":
            send_head(connection, "application/json")
            connection.sendall(start)
            send_without_end(connection, b"x" * 65_536)
        case "gzip bomb":
            send_head(connection, "application/json", "Content-Encoding: gzip")
            connection.sendall(deflated(start, zlib.MAX_WBITS | 16))
            send_without_end(connection, Prepared.bomb)
        case "lines of one event without end":
            send_head(connection, "text/event-stream")
            send_without_end(connection, b"data: x\n")
        case "events without end":
            send_head(connection, "text/event-stream")
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 300}}
            send_without_end(connection, f"event: message\ndata: {json.dumps(note)}\n\n".encode())
        case "headers without end":
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            send_without_end(connection, b"X-Header: " + b"x" * 1_000 + b"\r\n")
        case "chunks of one byte in long lines":
            send_head(connection, "application/json", "Transfer-Encoding: chunked")
            send_without_end(connection, b"1;" + b"a" * 60_000 + b"\r\n{\r\n")
        case "":
            send_json(connection, opened + json.dumps(text("done")) + "}")
        case _:
            send_json(connection, opened + Prepared.result + "}")


def serve_one(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as received:
        verb = received.readline().split(b" ")[0]
        size = 0
        while (line := received.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        if verb != b"POST":
            send_head(connection, "text/plain", "Content-Length: 0", status="405 Method Not Allowed")
            return
        message = json.loads(received.read(size))
        method, request_id = message.get("method", ""), message.get("id")
        if request_id is None:
            send_head(connection, "text/plain", "Content-Length: 0", status="202 Accepted")
        elif method == "tools/call":
            attack_over_http(connection, message)
        elif method in ("initialize", "tools/list"):
            result = initialized() if method == "initialize" else {"tools": TOOLS}
            send_json(connection, json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}))
        else:
            error = {"code": -32601, "message": f"no {method}"}
            send_json(connection, json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))


def serve_quietly(connection: socket.socket) -> None:
    try:
        serve_one(connection)
    except OSError:
        return  # the product has had enough


def over_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve_quietly, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    os.nice(5)
    over_http() if sys.argv[1:] == ["http"] else over_stdio()
