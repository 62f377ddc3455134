"""The command that runs a program in a fork of `fork_server`, and ends as it ends: SOCKET, then Python's arguments.

It is started each time, so it imports only modules that are part of the interpreter or written in C: `json`, `signal`
and `socket` would double its time.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import sys


def main(path: str, arguments: list[str]) -> None:
    """Hands over the streams, the folder, the environment and the umask; passes signals on until the program ends."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(path)
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
    server.sendmsg([b"\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    environment = dict(os.environ)
    server.sendall(marshal.dumps((arguments, os.getcwd(), environment, os.umask(0))))  # noqa: PTH109 - see above
    pid = _number(server)
    for number in (_signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, lambda number, _frame: os.kill(pid, number))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    code = _number(server)
    if code < 0:
        if -code != _signal.SIGKILL:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _number(server: _socket.socket) -> int:
    """The next line, a number."""
    line = b""
    while not line.endswith(b"\n"):
        part = server.recv(1)
        if not part:
            os._exit(1)  # the server has ended, and all that it started
        line += part
    return int(line)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
