"""Runs trusted programs with the guest's code for microVMs, in a plain process of this machine: no VM, no isolation."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from codemode_server.processes.stream_readers import FrameReader
from codemode_server.sandbox.backends.microvm.machine import _PYTHON
from codemode_server.sandbox.channel import Channel
from codemode_server.sandbox.contract import HostApi, Outcome, Program

_ROOT = Path(__file__).parents[2]
_START = """
import os, socket, sys
sys.path.insert(0, sys.argv[2])
from codemode_server.sandbox.guest import modules, threads
modules.PACKAGES_FOLDER = (*sys.argv[3:], modules.PACKAGES_FOLDER)[0]
threads.run(socket.socket(fileno=int(sys.argv[1])))
os._exit(0)
"""


async def run_natively(
    program: Program, host_api: HostApi, python: str = sys.executable, packages: Path | None = None
) -> Outcome:
    """Run one program; `python` is 3.11 or newer. `packages` is a folder that it imports from."""
    own, theirs = socket.socketpair()
    own.setblocking(False)
    stream = await SocketStream.from_socket(own)
    env = {**_PYTHON, "HOME": tempfile.gettempdir()}  # as in a microVM
    async with stream:
        command = [
            python,
            "-s",
            "-B",
            "-c",
            _START,
            str(theirs.fileno()),
            str(_ROOT),
            *([str(packages)] if packages else []),
        ]
        async with await anyio.open_process(command, pass_fds=[theirs.fileno()], env=env) as process:
            theirs.close()
            outcome = await Channel(FrameReader(stream), stream, program, host_api).run()
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                process.kill()
    return outcome
