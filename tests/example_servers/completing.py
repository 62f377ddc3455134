"""A server by hand with one prompt, whose argument it completes as it is told to: `completing.py LOG WAY`.

WAY is `none` (it does not declare completions), `fails`, or JSON: the completion. LOG gets a line for each request.
Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LOG, WAY = Path(sys.argv[1]), sys.argv[2]
PROMPT = {"name": "plan", "arguments": [{"name": "city"}, {"name": "hotel"}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"prompts": {}, **({} if WAY == "none" else {"completions": {}})}
            about = {"name": "completing", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}
        case "prompts/list":
            return {"prompts": [PROMPT]}
        case "tools/list":
            return {"tools": []}
        case "completion/complete":
            with LOG.open("a") as log:
                log.write(json.dumps(params) + "\n")
            return None if WAY == "fails" else {"completion": json.loads(WAY)}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
