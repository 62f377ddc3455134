"""A server by hand that asks the client what its tool is told to: `asking.py legacy|modern LOG`.

`ask(requests)` asks for each and answers with the list of answers; an error is answered as {"error": message}. `again`
asks so many times; `outside` asks once the call has been answered; `tells` are notifications that are sent first, and
`tells_after` once the call has been answered. `enter` is refused until the file `door`
exists, with the elicitations that lead there; once it exists, they are reported as completed, unless the server
`is_silent`. A server that is told that the roots have changed asks for them. LOG gets a line for each answer, each
notification that comes, the capabilities of each handshake or call, each level of log messages that is asked for, and
each `enter`. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

IS_MODERN, LOG = sys.argv[1] == "modern", Path(sys.argv[2])
META = "io.modelcontextprotocol/"
NUMBERS = itertools.count(1)
REQUESTS = {"type": "array", "items": {"type": "object"}}
PROPERTIES = {
    "requests": REQUESTS,
    "again": {"type": "integer"},
    "outside": {"type": "boolean"},
    "tells": REQUESTS,
    "tells_after": REQUESTS,
}
ENTER = {"elicitations": REQUESTS, "door": {"type": "string"}, "is_silent": {"type": "boolean"}}
TOOLS: list[dict[str, Any]] = [
    {"name": "ask", "inputSchema": {"type": "object", "properties": PROPERTIES, "required": ["requests"]}},
    {"name": "enter", "inputSchema": {"type": "object", "properties": ENTER, "required": ["elicitations", "door"]}},
]
CAPABILITIES: dict[str, Any] = {
    "tools": {},
    "logging": {},
}


def log(kind: str, value: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps({kind: value}) + "\n")


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    message: dict[str, Any] = json.loads(line)
    return message


def ask(request: dict[str, Any]) -> Any:
    number = f"s{next(NUMBERS)}"
    send({"id": number, **request})
    while (message := receive()).get("id") != number or "method" in message:
        handle(message)
    answer = message.get("result", {"error": message.get("error", {}).get("message")})
    log("answer", answer)
    return answer


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def call(arguments: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    requests = arguments["requests"] * arguments.get("again", 1)
    for notification in arguments.get("tells", []):
        send(notification)
    if not IS_MODERN:
        return text([ask(request) for request in ([] if arguments.get("outside") else requests)])
    log("capabilities", params["_meta"][META + "clientCapabilities"])
    log("level", params["_meta"].get(META + "logLevel"))
    answers = json.loads(params.get("requestState", "[]"))
    answers += list(params.get("inputResponses", {}).values())
    if len(answers) < len(requests):
        key = f"q{len(answers)}"
        state = json.dumps(answers)
        return {
            "resultType": "input_required",
            "inputRequests": {key: requests[len(answers)]},
            "requestState": state,
        }
    for answer in answers:
        log("answer", answer)
    return {"resultType": "complete", **text(answers)}


def enter(arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer, as a result or an error."""
    door, elicitations = Path(arguments["door"]), arguments["elicitations"]
    log("enter", door.exists())
    if door.exists():
        return {"result": {"resultType": "complete", "content": [{"type": "text", "text": "entered"}]}}
    if not arguments.get("is_silent"):
        threading.Thread(target=complete, args=(door, elicitations), daemon=True).start()
    data = {"elicitations": elicitations}
    return {"error": {"code": -32042, "message": "Open the door first.", "data": data}}


def complete(door: Path, elicitations: list[dict[str, Any]]) -> None:
    while not door.exists():
        time.sleep(0.01)
    for elicitation in elicitations:
        params = {"elicitationId": elicitation["elicitationId"]}
        send({"method": "notifications/elicitation/complete", "params": params})


def handle(message: dict[str, Any]) -> None:
    method, params = message.get("method", ""), message.get("params") or {}
    result: dict[str, Any] | None = None
    if method == "tools/call" and params["name"] == "enter":
        send({"id": message["id"], **enter(params["arguments"])})
        return
    cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {}
    if method == "server/discover" and IS_MODERN:
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **cache}
    elif method == "initialize" and not IS_MODERN:
        log("capabilities", params["capabilities"])
        server = {"name": "asking", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": server}
    elif method == "logging/setLevel":
        log("level", params["level"])
        result = {}
    elif method.startswith("notifications/"):
        log("notification", method)
    elif method == "tools/list":
        result = {"tools": TOOLS, **cache}
    elif method == "tools/call":
        result = call(params["arguments"], params)
    if "id" in message and method:
        send(
            {
                "id": message["id"],
                **({"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}),
            }
        )
    if method == "tools/call" and params["arguments"].get("outside"):
        ask(params["arguments"]["requests"][0])
    if method == "tools/call":
        for notification in params["arguments"].get("tells_after", []):
            send(notification)


while True:
    handle(receive())
