"""The filter that a runner in a microVM puts on, put on by a process of this machine's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codemode_server.sandbox.guest import system_calls

CODE = f"""
import ctypes, errno, importlib.util, json, os, socket, subprocess
spec = importlib.util.spec_from_file_location("system_calls", {str(Path(system_calls.__file__))!r})
filter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(filter)
libc = ctypes.CDLL(None, use_errno=True)
def calls(which):
    found = {{}}
    for name, numbers in filter._REFUSED.items():
        ctypes.set_errno(0)
        libc.syscall(numbers[which], -1, -1, -1, -1, -1)
        found[name] = errno.errorcode.get(ctypes.get_errno(), "none")
    return found
def sockets():
    found = {{}}
    for family, kind in (("UNIX", 1), ("INET", 1), ("NETLINK", 3), ("PACKET", 3), ("ALG", 5), ("VSOCK", 1)):
        try:
            socket.socket(getattr(socket, "AF_" + family), kind).close()
            found[family] = "made"
        except OSError as error:
            found[family] = errno.errorcode[error.errno]
    return found
which = filter._SYSTEMS[os.uname().machine][1]
filter.refuse_needless()
done = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
status = dict(line.split(":\\t", 1) for line in done.splitlines() if ":\\t" in line)
socket.socketpair()
print(json.dumps([calls(which), sockets(), status["Seccomp"], status["NoNewPrivs"]]))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in system_calls._SYSTEMS, reason="the filter is for Linux"
)
def test_needless_system_calls_and_sockets_are_refused_and_others_are_not() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    calls, sockets, seccomp, no_new_privileges = json.loads(done.stdout)
    assert set(calls.values()) == {"EPERM"}
    own = {name: made for name, made in sockets.items() if name in ("UNIX", "INET", "NETLINK")}
    assert own == dict.fromkeys(("UNIX", "INET", "NETLINK"), "made")
    assert [sockets[name] for name in ("PACKET", "ALG", "VSOCK")] == ["EAFNOSUPPORT"] * 3
    assert (seccomp, no_new_privileges) == ("2", "1"), "for the processes it starts too"
