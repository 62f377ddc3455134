"""A server by hand that asks the client what its tool is told to: `asking.py legacy|modern LOG`.

`ask(requests)` asks for each and answers with the list of answers; an error is answered as {"error": message}. `again`
asks so many times. LOG gets a line for each answer. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

IS_MODERN, LOG = sys.argv[1] == "modern", Path(sys.argv[2])
NUMBERS = itertools.count(1)
REQUESTS = {"type": "array", "items": {"type": "object"}}
PROPERTIES = {"requests": REQUESTS, "again": {"type": "integer"}}
TOOLS: list[dict[str, Any]] = [
    {"name": "ask", "inputSchema": {"type": "object", "properties": PROPERTIES, "required": ["requests"]}},
]


def log(answer: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps(answer) + "\n")


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
    log(answer)
    return answer


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def call(arguments: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    requests = arguments["requests"] * arguments.get("again", 1)
    if not IS_MODERN:
        return text([ask(request) for request in requests])
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
        log(answer)
    return {"resultType": "complete", **text(answers)}


def handle(message: dict[str, Any]) -> None:
    method, params = message.get("method", ""), message.get("params") or {}
    result: dict[str, Any] | None = None
    cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {}
    if method == "server/discover" and IS_MODERN:
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **cache}
    elif method == "initialize" and not IS_MODERN:
        server = {"name": "asking", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    elif method == "tools/list":
        result = {"tools": TOOLS, **cache}
    elif method == "tools/call":
        result = call(params["arguments"], params)
    if "id" in message and method:
        answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        send({"id": message["id"], **answer})


while True:
    handle(receive())
