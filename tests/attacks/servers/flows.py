"""An upstream through which data flows, by hand: `flows.py LOG`. Standard library only, so quick to start.

LOG gets a JSON line for each call of `post`. `hold` makes a file NAME.held and answers once the file
NAME exists, `touch` makes one. The server ends after `leave`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ["read", "fail", "echo", "hold", "touch", "post", "leave"]
WRITING = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with WRITING:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(request: dict[str, Any]) -> None:
    name, text = request["params"]["name"], request["params"].get("arguments", {}).get("text", "")
    if name == "hold":
        Path(f"{text}.held").touch()
        for _ in range(1_500):
            if Path(text).exists():
                break
            time.sleep(0.01)
    if name == "touch":
        Path(text).touch()
    if name == "post":
        with LOG.open("a") as log:
            log.write(json.dumps(text) + "\n")
    answer = {"read": "the data", "fail": "the data", "echo": text}.get(name, "done")
    say({"id": request["id"], "result": {"content": [{"type": "text", "text": answer}], "isError": name == "fail"}})
    if name == "leave":
        os._exit(0)


RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "flows", "version": "1"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": TEXT} for name in TOOLS]},
    "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "note://one", "text": "the data"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    if request["method"] == "tools/call":
        threading.Thread(target=call, args=(request,), daemon=True).start()
    elif request["method"] in RESULTS:
        say({"id": request["id"], "result": RESULTS[request["method"]]})
    else:
        say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
