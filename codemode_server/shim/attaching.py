"""Finds the running server of the person, or starts one.

There is a socket for each configuration, version and installation, principal, machine and sandbox around the host, in a
folder that only the user can enter. Whoever starts a server binds the socket for it and passes it on: so others can
connect before the server is loaded, and nobody asks again and again whether it is. The server decides whether a host
belongs to it (`startup/own_hosts.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import codemode_server
from codemode_server.config import places
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE
from codemode_server.support.private_files import NotPrivate, data_folder, open_private, private_folder

_TRIES = 5
_EXIT_SECONDS = 5.0
"""For a server that closed its socket at its start to end, so that its last words are there."""
_ANSWER_SECONDS = 60.0
"""For a server that is being loaded to answer, and for another process to start one: a busy machine takes long."""
_BACKLOG = 128
_MAX_ERROR_BYTES = 4_000


class NotAttached(CodemodeError):
    """Raised when no server can be attached to; the message says why, for the person."""


def folder() -> Path:
    """The folder of the sockets, which may not exist."""
    return data_folder() / "run"


def confinement(process: str = "self") -> list[str]:
    """What a sandbox leaves to a process, by its number: the namespaces that it is in, and whether its system calls are
    limited. Empty where the system does not say. Raises `OSError`."""
    if sys.platform != "linux":
        return []
    about = Path("/proc", process)
    status = (about / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line for line in status if line.startswith(("NoNewPrivs:", "Seccomp"))]
    for name in ("mnt", "net", "pid", "user"):
        with suppress(FileNotFoundError):  # not every kernel that runs programs for Linux has all (gVisor)
            found.append(str((about / "ns" / name).readlink()))
    return found


def connected(path: Path) -> socket.socket | None:
    """A connection to the server at a socket; None if none listens there. Raises `OSError`."""
    connection = _unix_socket()
    try:
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError:
        connection.close()
        raise
    return connection


def asked(path: Path, question: str) -> dict[str, Any]:
    """What the server at a socket answers to `status` or `stop`; empty if there is none. Raises `OSError`, and
    `ValueError` if it is ending."""
    if (connection := connected(path)) is None:
        return {}
    with connection, connection.makefile("rb") as received:
        connection.settimeout(_ANSWER_SECONDS)
        connection.sendall(json.dumps({"ask": question}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(received.readline() or b"{}")
        return answer


@dataclass(frozen=True, slots=True)
class Attached:
    """A connection to a server that has accepted this host."""

    socket: socket.socket
    received: BinaryIO
    answer: dict[str, Any]
    """The server's first line: `session`, `interrupted`, and perhaps a `notice` for the person."""


class Attaching:
    """Connects one host, as often as its server ends."""

    def __init__(self, config: Path | None) -> None:
        """`config`: the file named on the command line."""
        self._config = config
        self._started: subprocess.Popen[bytes] | None = None
        self._session = ""

    def attach(self) -> Attached:
        """Connect to the server; starts it if there is none. Raises `NotAttached`."""
        other = ""
        for _ in range(_TRIES):
            try:
                path = socket_of(self._config, other)
                connection = connected(path) or self._start(path)
                if (attached := self._greeted(connection)) is None:
                    self._raise_if_it_failed(path)
                    continue
            except (OSError, NotPrivate) as error:
                raise NotAttached(f"its running server can't be reached: {error}") from error
            if "session" in attached.answer:
                self._session = attached.answer["session"]
                return attached
            attached.socket.close()
            other = str(attached.answer.get("other", other))
        raise NotAttached("its running server ends again and again; its log has the reason")

    def reap(self) -> None:
        """Have a server that this process started, and that has ended, be gone for the system."""
        if self._started is not None:
            with suppress(subprocess.TimeoutExpired):
                self._started.wait(_EXIT_SECONDS)

    def _greeted(self, connection: socket.socket) -> Attached | None:
        """The connection after both first lines; None if the server has ended before its own."""
        hello = {
            "folder": os.getcwd(),  # noqa: PTH109 - as the host sees it
            "environment": dict(os.environ),
            "session": self._session,
        }
        received = connection.makefile("rb")
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.sendall(json.dumps(hello).encode() + b"\n")
            if line := received.readline():
                connection.settimeout(None)
                return Attached(connection, received, json.loads(line))
        except TimeoutError:
            connection.close()
            raise NotAttached("its running server does not answer") from None
        except (ConnectionError, ValueError):
            pass
        connection.close()
        return None

    def _start(self, path: Path) -> socket.socket:
        """Start a server at this socket, unless another process does so at the moment."""
        from codemode_server.processes.file_lock import held  # most hosts find a server

        with held(path.with_suffix(".lock"), timeout_s=_ANSWER_SECONDS):
            if (connection := connected(path)) is not None:
                return connection
            path.unlink(missing_ok=True)
            with _unix_socket() as listener:
                listener.bind(str(path))
                path.chmod(0o600)
                listener.listen(_BACKLOG)
                self._started = self._launch(listener.fileno(), path.with_suffix(".log"))
                connection = _unix_socket()
                connection.connect(str(path))
        return connection

    def _launch(self, listener: int, log: Path) -> subprocess.Popen[bytes]:
        # With -P the folder of the host, which may be anybody's, is not a place of modules.
        command = [sys.executable, "-P", "-m", "codemode_server", "serve", "--listener", str(listener)]
        if self._config is not None:
            command += ["--config", str(self._config)]
        errors = open_private(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            return subprocess.Popen(  # noqa: S603 - this Python and our own arguments
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[listener],
                start_new_session=True,  # so that it outlives this host, whatever that kills
            )
        finally:
            os.close(errors)

    def _raise_if_it_failed(self, path: Path) -> None:
        """Raises `NotAttached` if the server that this process started has ended with an error."""
        if self._started is None:
            time.sleep(0.05)  # another one's server is ending
            return
        self.reap()
        if self._started.returncode and self._started.returncode > 0:  # else somebody has killed it
            raise NotAttached(f"its running server could not start; {_said(path.with_suffix('.log'))}")
        self._started = None


def socket_of(config: Path | None, other: str = "") -> Path:
    """The socket for this configuration, program, principal, sandbox and machine; `other` is of the environment. Raises
    `NotPrivate`, `OSError`."""
    environ, cwd = os.environ, Path.cwd()
    place = places.asked_for(config, environ, cwd, must_exist=False) or places.in_folder(cwd)
    about = [
        str(place.path if place else places.user_file()),
        place is not None and place.is_in_current_folder and str(cwd),
        environ.get(PRINCIPAL_VARIABLE, ""),
        *confinement(),
        *_program(),
    ]
    key = hashlib.sha256(json.dumps(about).encode("utf-8", "replace")).hexdigest()[:16]
    return private_folder(folder()) / f"{key}{other}.sock"


def _program() -> list[str]:
    """What changes with each installation; packages that are installed later count."""
    package = Path(codemode_server.__file__).parent
    installed_at = str(package.parent.stat().st_mtime_ns)
    return [codemode_server.__version__, sys.executable, str(package), installed_at, socket.gethostname()]


def _unix_socket() -> socket.socket:
    if sys.platform == "win32":
        raise NotImplementedError  # there each host has a product of its own
    return socket.socket(socket.AF_UNIX)


def _said(log: Path) -> str:
    """The end of what a server wrote before it ended, as a clause."""
    try:
        said = log.read_bytes()[-_MAX_ERROR_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        said = ""
    return f"it said:\n{said}" if said else "it said nothing"
