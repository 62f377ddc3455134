"""A server by hand that ends after a call of `leave`: `hotel.py LOG`. LOG gets a line for each start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": TEXT} for name in ("list_rooms", "say", "leave")]
STARTED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hotel", "version": "1"},
}

with Path(sys.argv[1]).open("a") as log:
    log.write("start\n")
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method", ""), message.get("params") or {}
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
    if method == "initialize":
        answer = {"result": STARTED}
    elif method == "tools/list":
        answer = {"result": {"tools": TOOLS}}
    elif method == "tools/call":
        text = params.get("arguments", {}).get("text", "12 rooms")
        answer = {"result": {"content": [{"type": "text", "text": text}]}}
    if "id" in message and method:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
    if method == "tools/call" and params["name"] == "leave":
        break
