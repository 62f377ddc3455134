"""An upstream that tells its secrets behind or before as much text as it is asked for, and rows with any keys.

`padded.py START`: with `start` as START it exits at once, its last words on stderr; `SECRET`, `PEM` and `BEFORE` come
from the environment. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SECRET = os.environ.get("SECRET_TOKEN", "")
PEM = os.environ.get("SECRET_KEY", "").replace("\\n", "\n")
BEFORE = int(os.environ.get("BEFORE", "0"))
PADDING = "abc "


def padded(before: int, secret: str, after: int) -> str:
    return (PADDING * before)[:before] + secret + (PADDING * after)[:after]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


def called(request: dict[str, Any]) -> None:
    arguments = request["params"].get("arguments") or {}
    how, number = arguments.get("how"), request["id"]
    said = padded(arguments.get("before", 0), {"pem": PEM}.get(arguments.get("what", ""), SECRET), arguments.get("after", 0))
    result = {"jsonrpc": "2.0", "id": number}
    match how:
        case "rows":
            say({**result, "result": {"content": [], "structuredContent": {"result": arguments["rows"]}}})
        case "error":
            say({**result, "result": text(said, isError=True)})
        case "structured error":
            say({**result, "result": {"content": [], "structuredContent": {"why": said}, "isError": True}})
        case "protocol error":
            say({**result, "error": {"code": -32000, "message": said}})
        case "data of an error":
            say({**result, "error": {"code": -32000, "message": "no", "data": said}})
        case "error of another form":
            say({**result, "error": {"reason": said}})
        case "unmarked error":
            say({**result, "result": text(f"Error: {said}")})
        case "value":
            say({**result, "result": {"content": [], "structuredContent": {"name": said}}})
        case "crash":
            sys.stderr.write(said)
            sys.stderr.flush()
            os._exit(3)
        case _:
            say({**result, "result": text(said.replace(SECRET, "nothing"))})


def main() -> None:
    if "start" in sys.argv:
        sys.stderr.write(padded(0, PEM if "pem" in sys.argv else SECRET, BEFORE))
        sys.stderr.flush()
        os._exit(2)
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "padded", "version": "1"}
                told = {"instructions": f"Tells {padded(BEFORE, SECRET, 30)}."}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info, **told}
                say({"jsonrpc": "2.0", "id": request["id"], "result": result})
            case "tools/list":
                schema = {"type": "object", "additionalProperties": True}
                description = padded(BEFORE, SECRET, 30)
                tools = [{"name": "tell", "description": description, "inputSchema": schema}]
                say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": tools}})
            case "tools/call":
                called(request)
            case _ if "id" in request:
                say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}})


main()
