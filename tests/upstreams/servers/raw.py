"""Old, odd and hostile servers over stdio, by hand: `raw.py KIND [FILE]`. Standard library only, so quick to start.

FILE: a log of the methods received, or what the kind says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

KIND = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
OBJECT = {"type": "object"}
CALLS: list[Any] = []
TASKS = ("works", "fails", "direct", "hangs")
"""Tools that are called as tasks; `direct` answers at once all the same."""


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, indent=2 if KIND == "noisy" else None) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: Any) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: dict[str, Any], message: str, code: int = -32601) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def tools(cursor: str | None) -> dict[str, Any]:
    plain = {"name": "a", "inputSchema": OBJECT}
    if KIND == "off_schema":
        return {
            "tools": [
                plain,
                {"name": "loose", "inputSchema": {}},
                {"name": "list_out", "inputSchema": OBJECT, "outputSchema": {"type": "array"}},
                {"name": "wrong", "inputSchema": {"type": "array"}},
                {"name": "text", "inputSchema": "none"},
                {"inputSchema": OBJECT},
                {"name": "a", "inputSchema": OBJECT, "description": "again"},
                "what",
                {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 600_000}},
            ]
        }
    if KIND == "pages":
        number = int(cursor or 0)
        page: dict[str, Any] = {"tools": [{"name": f"t{number}", "inputSchema": OBJECT}]}
        return page | ({"nextCursor": str(number + 1)} if number < 2 else {})
    if KIND == "endless_pages":
        return {"tools": [plain | {"name": f"t{cursor or 0}"}], "nextCursor": str(int(cursor or 0) + 1)}
    if KIND == "tasks":
        return {"tools": [plain | {"name": name, "execution": {"taskSupport": "required"}} for name in TASKS]}
    if KIND == "promising":
        return {"tools": [plain | {"outputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}}]}
    return {"tools": [plain]}


def ask_first(request: dict[str, Any]) -> None:
    """One round of `rounds` for each call: addresses that the user has to open first, or a form; then an answer."""
    rounds = request["params"]["arguments"]["rounds"]
    match rounds[len(CALLS)] if len(CALLS) < len(rounds) else None:
        case [*urls]:
            data = {"elicitations": [{"url": url, "elicitationId": url, "message": "Sign in"} for url in urls]}
            error = {"code": -32042, "message": "Sign in first", "data": data}
            say({"jsonrpc": "2.0", "id": request["id"], "error": error})
        case "form":
            params = {"mode": "form", "message": "Which?", "requestedSchema": OBJECT | {"properties": {}}}
            say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
            sys.stdin.readline()
            answer(request, {"content": [{"type": "text", "text": "asked"}]})
        case _:
            answer(request, {"content": [{"type": "text", "text": "ok"}]})
    CALLS.append(request["id"])


def task(request: dict[str, Any]) -> None:
    """A task is `working` when it is made, and `completed` at the first look, but for one that hangs."""
    params = request["params"]
    name = params.get("taskId") or params["name"]
    said = {"taskId": name, "status": "working", "pollInterval": float("nan") if name == "fails" else 1}
    if request["method"] == "tools/call":
        assert "task" in params
    if name == "direct" or request["method"] == "tasks/result":
        answer(request, {"content": [{"type": "text", "text": name}], "isError": name == "fails"})
    elif request["method"] == "tools/call":
        answer(request, {"task": said})
    else:
        answer(request, said | {"status": "working" if name == "hangs" else "completed", "statusMessage": "going on"})


def call(request: dict[str, Any]) -> None:
    if KIND == "address":
        ask_first(request)
        return
    if KIND == "never":
        return
    if KIND == "crash":
        if FILE is not None and not FILE.exists():
            FILE.touch()
            sys.exit(3)
        answer(request, {"content": [{"type": "text", "text": "back"}]})
    elif KIND == "last_words":
        sys.stderr.write("the disk is full\n")
        sys.exit(5)
    elif KIND == "odd_content":
        answer(request, {"content": [{"type": "weird", "x": 1}]})
    elif KIND == "no_content":
        answer(request, {"foo": 1})
    elif KIND == "null_result":
        answer(request, None)
    elif KIND == "huge_line":
        size = int(request["params"]["arguments"]["mib"]) * 2**20
        answer(request, {"content": [{"type": "text", "text": "x" * size}]})
    elif KIND == "reporting":
        token = json.dumps(request["params"]["_meta"]["progressToken"])
        for report in request["params"]["arguments"]["reports"]:
            params = f'{{"progressToken":{token},{report.replace("TOKEN", token)}}}'
            sys.stdout.write(f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n')
        answer(request, {"content": [{"type": "text", "text": str(os.getpid())}]})
    elif KIND == "pinging":
        sys.stdout.write("".join(f'{{"jsonrpc":"2.0","id":{number},"method":"ping"}}\n' for number in range(20_000)))
        answer(request, {"content": [{"type": "text", "text": "ok"}]})
        time.sleep(600)  # reads nothing more
    elif KIND == "curious":
        for number in range(120):
            say({"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"})
        said = [json.loads(sys.stdin.readline())["error"]["message"] for _ in range(20)]
        answer(request, {"content": [{"type": "text", "text": f"{len(said)} errors: {' '.join(set(said))}"}]})
    elif KIND == "refusing":
        refuse(request, "no \x1b[31mway\x1b[0m " + "x" * 10_000, code=-32000)
    elif KIND == "environment":
        answer(request, {"content": [], "structuredContent": dict(os.environ)})
    else:
        answer(request, {"content": [{"type": "text", "text": "ok"}], "extra": 1})


def main() -> None:
    if KIND == "exits":
        sys.stderr.write("fatal: no API key; got PROBE_KEY=" + os.environ.get("PROBE_KEY", "") + "\n")
        sys.exit(2)
    if KIND == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
        )
        if FILE is not None:
            FILE.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
            FILE.with_suffix(".part").rename(FILE)
    if KIND == "noisy":
        print("Server starting... this is not JSON")
        print('{"level": "info", "msg": "nor is this JSON-RPC"}')
        print(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "log", "params": {"message": "hello"}}), flush=True)
    if KIND == "shouting":
        sys.stderr.write("noise\n" * 200_000)
        sys.stderr.flush()
    if KIND == "slow":
        while FILE is not None and not FILE.exists():
            time.sleep(0.01)
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method", "")
        if FILE is not None and KIND not in ("crash", "slow", "stubborn"):
            with FILE.open("a") as file:
                file.write(method + "\n")
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "raw", "version": "1"}
            answer(message, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info})
        elif method == "tools/list":
            answer(message, tools((message.get("params") or {}).get("cursor")))
        elif KIND == "tasks" and method.startswith(("tools/call", "tasks/")):
            task(message)
        elif method == "tools/call":
            call(message)
        elif "id" in message and method:
            if KIND in ("deaf", "stubborn"):
                continue
            if KIND == "dies_at_probe":
                sys.exit(1)
            refuse(message, "nope")
    if KIND == "stubborn":
        time.sleep(600)


main()
