"""A server by hand with what real ones have seldom: `hotel.py LOG [quiet]`. Standard library only, so quick to start.

It lists more tools to clients with elicitation or roots, and says so in its instructions unless it is `quiet`. LOG gets
a line for each start and each call.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LOG, IS_QUIET = Path(sys.argv[1]), "quiet" in sys.argv
OBJECT = {"type": "object"}
PLACES = {"type": "array", "items": {"type": "string"}}
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "path": {"type": "string"}, "paths": PLACES},
    "required": ["text"],
}


def note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(line + "\n")


def tools(features: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [
        {"name": "list_rooms", "description": "Lists the rooms.", "inputSchema": OBJECT},
        {"name": "say", "description": "Answers with the text.", "inputSchema": TEXT},
        {"name": "leave", "description": "Answers and ends the server.", "inputSchema": OBJECT},
    ]
    if "elicitation" in features:
        listed.append({"name": "confirm", "description": "Asks by elicitation.", "inputSchema": OBJECT})
    if "roots" in features:
        listed.append({"name": "export", "description": "Writes to one of the roots.", "inputSchema": OBJECT})
    return listed


def main() -> None:
    features: dict[str, Any] = {}
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method", ""), message.get("params") or {}
        result: dict[str, Any] | None = None
        if method == "initialize":
            features = params["capabilities"]
            note(" ".join(["start", *sorted(features)]))
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hotel", "version": "1"},
                "instructions": "Rooms." if IS_QUIET else "Rooms. To confirm, the client must support elicitation.",
            }
        elif method == "tools/list":
            result = {"tools": tools(features)}
        elif method == "tools/call":
            note("call " + params["name"])
            text = params.get("arguments", {}).get("text", "12 rooms")
            result = {"content": [{"type": "text", "text": text}], "isError": text.startswith("Access denied")}
        if "id" in message and method:
            error = {"error": {"code": -32601, "message": "no such method"}}
            answer = {"result": result} if result is not None else error
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
        if method == "tools/call" and params["name"] == "leave":
            return


main()
