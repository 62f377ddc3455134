"""How a host's process finds its server, and how that server knows whose process connects."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import codemode_server
from codemode_server.shim import attaching
from codemode_server.shim.attaching import Attaching, NotAttached, socket_of
from codemode_server.startup import own_hosts
from tests.shared_server import short_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there each host has a product of its own")


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets."""
    with short_folder("attaching-") as folder:
        monkeypatch.setenv("XDG_DATA_HOME", str(folder))
        yield attaching.folder()


def test_a_server_that_never_answers_does_not_hold_its_hosts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "_ANSWER_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_of(None)))
        listener.listen()
        with pytest.raises(NotAttached, match="does not answer"):
            Attaching(None).attach()


def test_another_version_has_another_server(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, same = socket_of(None), socket_of(None)
    monkeypatch.setattr(codemode_server, "__version__", "99.0")
    assert first == same != socket_of(None)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system says nothing of this")
def test_a_kernel_without_some_namespaces_has_a_running_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_link: Path) -> Path:
        raise FileNotFoundError

    whole = attaching.confinement()
    monkeypatch.setattr(Path, "readlink", missing)
    assert attaching.confinement() == whole[:-4]


class Connection:
    """What the system says of the other side, as Linux before 6.5 and macOS do: without a handle of its process."""

    def __init__(self, credentials: bytes) -> None:
        self._credentials = credentials

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        if not size:
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        assert (level, option) == (0, 1) if sys.platform == "darwin" else (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return self._credentials[:size]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_system_says_whose_process_connects(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS it is `xucred`: a version, the user, a number of groups, sixteen groups."""
    monkeypatch.setattr(sys, "platform", platform)

    def connection(uid: int) -> Any:
        linux, macos = struct.pack("3I", os.getpid(), uid, 0), struct.pack("2Ih2x16I", 0, uid, 1, *range(16))
        return Connection(linux if platform == "linux" else macos)

    assert own_hosts.is_ours(connection(os.geteuid()))
    assert not own_hosts.is_ours(connection(os.geteuid() + 1))
    if platform == "linux":
        with pytest.raises(FileNotFoundError):  # it has ended, or is outside of all that this process sees
            own_hosts.is_ours(Connection(struct.pack("3I", 0, os.geteuid(), 0)))
