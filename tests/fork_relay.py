"""The command that runs a program in a fork of `fork_server`, and ends as it ends: SOCKET, then Python's arguments.

It imports little, because it is started each time.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys


def main(path: str, arguments: list[str]) -> None:
    """Hands over the streams, the folder, the environment and the umask; passes signals on until the program ends."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    server.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    request = {
        "arguments": arguments,
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all else here
        "environment": dict(os.environ),
        "umask": os.umask(0),
    }
    server.sendall(json.dumps(request).encode() + b"\n")
    replies = server.makefile("r")
    pid = int(replies.readline())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: os.kill(pid, number))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    code = int(replies.readline())
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
