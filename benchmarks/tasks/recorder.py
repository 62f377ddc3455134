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
            _answered(json.loads(line), sent, out)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return child.wait()


def _requests(stdin: IO[bytes], server: str, sent: dict[Any, dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        if b'"tools/call"' in line:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                called = message["params"]
                sent[message["id"]] = {"tool": f"{server}/{called['name']}", "arguments": called.get("arguments")}
        stdin.write(line)
        stdin.flush()
    stdin.close()


def _answered(message: dict[str, Any], sent: dict[Any, dict[str, Any]], out: int) -> None:
    if "method" not in message and (call := sent.pop(message.get("id"), None)) is not None:
        os.write(out, json.dumps(call).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
