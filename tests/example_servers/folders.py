"""A server by hand that depends on where it runs: `folders.py roots|late|plain FOLDER`. Standard library only.

`where()` answers with its folder, its process, what its client can answer, how often it was called, and the roots that
it was told; with `roots` it asks for them once, before any call, and takes the answer in the background, as the
official server for files does; with `late` it asks in its first call, which waits for them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

KIND = sys.argv[1]
SENDING = threading.Lock()
KNOWN: dict[str, Any] = {"calls": 0, "roots": None}
WAITING: list[dict[str, Any]] = []
"""The first call, until the roots that it asks for have come."""


def send(message: dict[str, Any]) -> None:
    with SENDING:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def handle(message: dict[str, Any]) -> None:
    method = message.get("method", "")
    if message.get("id") == "roots" and not method:
        roots = [root["uri"] for root in message.get("result", {}).get("roots", [])]
        if WAITING:
            KNOWN["roots"] = roots
            handle(WAITING.pop())
        else:
            threading.Timer(0.03, KNOWN.update, [{"roots": roots}]).start()
        return
    if method == "tools/call" and KIND == "late" and KNOWN["roots"] is None:
        WAITING.append(message)
        send({"id": "roots", "method": "roots/list"})
        return
    if method == "notifications/initialized" and KIND == "roots":
        send({"id": "roots", "method": "roots/list"})
    result: dict[str, Any] | None = None
    if method == "initialize":
        KNOWN["features"] = sorted(message["params"]["capabilities"])
        about = {"name": "folders", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        KNOWN["calls"] += 1
        value = {"folder": os.getcwd(), "process": os.getpid(), **KNOWN}  # noqa: PTH109
        result = {"content": [{"type": "text", "text": json.dumps(value)}]}
    if "id" in message and method:
        send({"id": message["id"], **({"result": result} if result else {"error": {"code": -32601, "message": "no"}})})


for line in sys.stdin:
    handle(json.loads(line))
