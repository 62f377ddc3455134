"""System calls that no program needs and that have been ways into kernels, refused by a filter nobody can take off.

For the runner, before the program: a microVM's root may not set the kernel's own switches for them (it has no
CAP_SYS_ADMIN). Sockets are those of the machine itself (unix, netlink) and of its loopback; none to the host's side.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

_SYSTEMS = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Architecture of a machine in a filter, and the column of its numbers below."""
_SOCKET = (41, 198)
_REFUSED = {
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "syslog": (103, 116),
}
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_OTHER_NUMBERS = 0x40000000  # x32, which x86_64 has beside its own
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _SYSTEM, _FIRST_ARGUMENT = 0, 4, 16
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22


def refuse_needless() -> None:
    """Have the kernel filter what this process and all that come from it ask for, until they end."""
    system = _SYSTEMS.get(os.uname().machine)
    if system is None:
        return
    steps = _steps(*system)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value, more in ((_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, 2, ctypes.addressof(program))):
        if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls can't be put on")


def _steps(system: int, which: int) -> list[tuple[int, int, int, int]]:
    """The filter's instructions: what to do, how many to pass over if so and if not, and a number."""
    refused = [numbers[which] for numbers in _REFUSED.values()]
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    return [
        (_LOAD, 0, 0, _SYSTEM),
        (_IF_EQUAL, 1, 0, system),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, len(refused) + 1, 0, _OTHER_NUMBERS),
        *((_IF_EQUAL, len(refused) - place, 0, number) for place, number in enumerate(refused)),
        (_IF_EQUAL, 2, 1, _SOCKET[which]),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *((_IF_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)),
        (_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
