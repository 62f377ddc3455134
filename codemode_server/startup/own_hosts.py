"""Decides which hosts belong to the running server: by the process that connects, and by its environment.

Only processes of the same user can connect: the folder of the socket is closed to others, and the system says who
connects. Such a process could do itself all that the server does, unless it is in a sandbox, as the commands of some
hosts are. So on Linux a server refuses processes that are not confined exactly as it is itself.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from codemode_server.config import LoadedSettings
from codemode_server.config.places import VARIABLE, digest
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE
from codemode_server.shim.attaching import confinement

_REFERENCE = re.compile(rb"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_READ_BY_US = (
    *("HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "UV", "MSB_HOME", "DISPLAY", "WAYLAND_DISPLAY"),
    *("LANGFUSE_HOST", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"),
)
_PREFIXES = ("CODEMODE_", "OTEL_")
_NOT_COMPARED = {VARIABLE, PRINCIPAL_VARIABLE}
"""What the name of the socket says already."""
_SO_PEERPIDFD = 77
"""Option of sockets on Linux, which this Python has no name for."""


def environment_digests(loaded: LoadedSettings | SettingsError, *environments: Mapping[str, str]) -> list[str]:
    """For each environment, the digest of what a server with this configuration uses of it: the variables that the file
    names, those that codemode-server itself reads, and the programs on the PATH that are commands of servers. Reads the
    file."""
    names, commands = set(_READ_BY_US), set[str]()
    if not isinstance(loaded, SettingsError):
        for file in loaded.digests:
            with suppress(OSError):
                names |= {name.decode() for name in _REFERENCE.findall(Path(file).read_bytes())}
        commands = {it.command for it in loaded.settings.servers.values() if it.command}
    found = list[str]()
    for environ in environments:
        programs = [(command, shutil.which(command, path=environ.get("PATH"))) for command in sorted(commands)]
        compared = {name for name in environ if name in names or name.startswith(_PREFIXES)} - _NOT_COMPARED
        values = [(name, environ[name]) for name in sorted(compared)]
        found.append(digest(json.dumps([programs, values]).encode())[:16])
    return found


def is_ours(connection: Any) -> bool:
    """True if the process on the other side is this user's, and confined exactly as this one. Raises `OSError`."""
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return uid == os.geteuid() and confinement(str(pid)) == confinement() and _lives(connection)
    if sys.platform == "darwin":
        uid = struct.unpack("2I", connection.getsockopt(0, 1, 8))[1]  # LOCAL_PEERCRED: the version, the user
        return bool(uid == os.geteuid())
    return True  # the folder is closed to others


def _lives(connection: Any) -> bool:
    """True if the process that connected goes on, so that its number is no other one's by now: a process in a sandbox
    could leave the connection to its child. Linux before 6.5 does not say. Raises `OSError`."""
    if sys.platform != "linux":
        return True
    try:
        process = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return True
        raise
    try:
        signal.pidfd_send_signal(process, 0)
    finally:
        os.close(process)
    return True
