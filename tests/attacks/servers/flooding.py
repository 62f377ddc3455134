"""An upstream whose answers are too much: `flooding.py stdio`, or `flooding.py http` which prints its port.

`flooding.py stdio TOOLS SIZE WHAT` lists many tools from the beginning; with `broken` its handshake is no JSON, with
`gzip in name only` no gzip.

`act(what, size, form)` answers with about `size` bytes: `what` says of what they are made, and `form` how HTTP sends
them. Standard library only.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 64 * 2**10
ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
LISTED: dict[str, Any] = {"tools": 0, "size": 0, "what": "text"}


def result_of(what: str, size: int) -> str:
    """The result as JSON."""
    match what:
        case "text":
            return json.dumps({"content": [{"type": "text", "text": "x" * size}]})
        case "values":
            return '{"content":[],"structuredContent":{"x":[' + "[]," * (size // 3) + "0]}}"
        case "deep":
            return '{"content":[],"structuredContent":{"x":' + "[" * size + "]" * size + "}}"
        case "rows":
            row = '{"id":12345,"name":"name of it","tags":["a","b"],"ok":true},'
            return '{"content":[],"structuredContent":{"x":[' + row * (size // len(row)) + "{}]}}"
    return json.dumps({"content": [{"type": "text", "text": "pong"}]})


def tools_of(count: int, size: int, what: str) -> list[dict[str, Any]]:
    """Tools whose schemas have about `size` bytes each."""
    fields = {f"field_{n}": {"type": "string", "description": "what it is for " * 3} for n in range(size // 100)}
    if what == "long fields":
        fields = {f"field_{n}": {"type": "string", "description": "x" * (size // 10)} for n in range(10)}
    schema = {"type": "object", "properties": fields}
    said = "elicit sampling roots client " * (size // 30) if what == "text" else "Does it."
    plain = schema if what != "text" else ANY
    return [{"name": f"tool_{n}", "description": f"{n} {said}", "inputSchema": plain} for n in range(count)]


def response(message: dict[str, Any]) -> str:
    method, params = message.get("method"), message.get("params") or {}
    identity = json.dumps(message["id"])
    arguments = params.get("arguments") or {}
    what, size = arguments.get("what", ""), int(arguments.get("size", 0))
    if method == "initialize":
        info = {"name": "flooding", "version": "1"}
        able = {"tools": {"listChanged": True}}
        result = json.dumps({"protocolVersion": "2025-06-18", "capabilities": able, "serverInfo": info})
    elif method == "tools/list":
        tools = [{"name": "act", "inputSchema": ANY}]
        result = json.dumps({"tools": [*tools, *tools_of(LISTED["tools"], LISTED["size"], LISTED["what"])]})
    elif method == "tools/call":
        result = result_of(what, size)
    else:
        return f'{{"jsonrpc":"2.0","id":{identity},"error":{{"code":-32601,"message":"no {method}"}}}}'
    if what == "broken" or (method == "initialize" and LISTED["what"] == "broken"):  # ends in the midst of a text
        return f'{{"jsonrpc":"2.0","id":{identity},"result":{{"content":["' + "x" * size
    return f'{{"jsonrpc":"2.0","id":{identity},"result":{result}}}'


def stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        arguments = (message.get("params") or {}).get("arguments") or {}
        if arguments.get("what") == "no end":
            sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":{"content":["' % json.dumps(message["id"]))
            for _ in range(int(arguments["size"]) // PIECE):
                sys.stdout.write("x" * PIECE)
            if arguments.get("form") != "ever":
                sys.stdout.write('"]}}\n')
        else:
            sys.stdout.write(response(message) + "\n")
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        arguments = (message.get("params") or {}).get("arguments") or {}
        form = arguments.get("form", "json")
        if message["method"] == "initialize" and LISTED["what"].startswith("gzip"):
            form = LISTED["what"]
        self.send_response(500 if form == "error" else 200)
        self.send_header("Content-Type", "text/event-stream" if form.startswith("events") else "application/json")
        if form.startswith("gzip"):
            self.send_header("Content-Encoding", ", ".join(["gzip"] * (3 if form == "gzip of nothing" else 1)))
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for piece in self.pieces(message, form, int(arguments.get("size", 0))):
                self.wfile.write(piece)
        except OSError:
            pass  # the client has had enough
        self.close_connection = True

    def pieces(self, message: dict[str, Any], form: str, size: int) -> Iterator[bytes]:
        identity = json.dumps(message["id"])
        head = f'{{"jsonrpc":"2.0","id":{identity},"result":{{"content":["'.encode()
        match form:
            case "endless" | "error":
                yield head
                while True:
                    yield b"x" * PIECE
            case "gzip of it":
                yield gzip.compress(response(message).encode())
            case "gzip":
                # One level makes a thousand of each byte.
                yield gzip.compress(head + b"x" * size + b'"]}}')
            case "gzip in name only":
                yield response(message).encode()
            case "gzip of nothing":  # at three levels, and at the end millions of empty blocks
                packer = zlib.compressobj(9, zlib.DEFLATED, 31)
                middle = [packer.compress(b"\x1f\x8b\x08" + bytes(6) + b"\xff")]
                middle += [packer.compress(b"\0\0\0\xff\xff" * PIECE) for _ in range(size // (5 * PIECE))]
                yield gzip.compress(b"".join([*middle, packer.flush()]))
            case "events":
                yield b"event: message\ndata: " + response(message).encode() + b"\n\n"
            case "events in lines":
                yield b"data: " + response(message).encode().replace(b",", b",\r\ndata: ") + b"\r\n\r\n"
            case "events endless":
                yield b"data: " + head
                while True:
                    yield b"x" * PIECE
            case _:
                yield response(message).encode()

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    if len(sys.argv) > 2:
        LISTED.update(tools=int(sys.argv[2]), size=int(sys.argv[3]), what=sys.argv[4])
    if sys.argv[1] == "stdio":
        stdio()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
