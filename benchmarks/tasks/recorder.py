"""A proxy before a server that speaks over stdio: it passes each line on, and records the calls of tools.

`python recorder.py LOG SERVER COMMAND…`; each call that was answered is a line of JSON in LOG. Standard library only,
and the same in every arm: what reaches a server is counted here, whoever sent it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import IO, Any


def main(log: str, server: str, command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sent: dict[Any, dict[str, Any]] = {}
    threading.Thread(target=_requests, args=(child.stdin, server, sent), daemon=True).start()
    for line in child.stdout:
        if sent:
            _answered(json.loads(line), len(line), sent, out)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return child.wait()


def _requests(stdin: IO[bytes], server: str, sent: dict[Any, dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        if b'"tools/call"' in line:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                call = {
                    "tool": f"{server}/{message['params']['name']}",
                    "arguments": message["params"].get("arguments"),
                }
                sent[message["id"]] = call | {"sent_bytes": len(line), "began": time.monotonic()}
        stdin.write(line)
        stdin.flush()
    stdin.close()


def _answered(message: dict[str, Any], size: int, sent: dict[Any, dict[str, Any]], out: int) -> None:
    if "method" in message or (call := sent.pop(message.get("id"), None)) is None:
        return
    seconds = time.monotonic() - call.pop("began")
    failed = "error" in message or bool(message["result"].get("isError"))
    os.write(out, json.dumps(call | {"bytes": size, "failed": failed, "seconds": seconds}).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
