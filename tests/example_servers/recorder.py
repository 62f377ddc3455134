"""Writes each call that it receives to a file, on the disk before it answers: `recorder.py FILE`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
from tests.example_servers.plain import Server

server = Server("recorder")
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


@server.tool()
def record(run: int, number: int) -> int:
    """Records a call."""
    os.write(file, f"{json.dumps([run, number])}\n".encode())
    os.fsync(file)
    return number


server.run()
