"""What a host's process does between the host and servers that end; driven by lines, over sockets."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from io import RawIOBase
from typing import Any, cast

import pytest

from codemode_server.mcp_server.opening import HostStdin, HostStdout
from codemode_server.shim.attaching import Attached, Attaching, NotAttached
from codemode_server.shim.relay import Relay
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there each host has a product of its own")


class Server:
    """The other side of a connection."""

    def __init__(self, **answer: Any) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        self.socket, self._received = ours, ours.makefile("rb")
        self.attached = Attached(theirs, theirs.makefile("rb"), answer)

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._received.readline())
        return message

    def end(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)


class Host(RawIOBase):
    """A host's input and output."""

    def __init__(self, *later: Server | None) -> None:
        """`later`: the servers after the first, each None if none can be started."""
        self._lines: queue.Queue[str] = queue.Queue()
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.later = [*later]

    def readline(self, _size: int | None = -1, /) -> Any:
        return self._lines.get()

    def write(self, data: Any, /) -> int:
        self._messages.put(json.loads(bytes(data)))
        return len(data)

    def attach(self) -> Attached:
        if (server := self.later.pop(0) if self.later else None) is None:
            raise NotAttached("no server can be started")
        return server.attached

    def reap(self) -> None: ...

    def send(self, **message: Any) -> None:
        self._lines.put(json.dumps(message) + "\n")

    def next(self) -> dict[str, Any]:
        return self._messages.get(timeout=PATIENCE_S)

    def close_input(self) -> None:
        self._lines.put("")


def relayed(host: Host, server: Server) -> threading.Thread:
    relay = Relay(cast("HostStdin", host), HostStdout(cast("Any", host), []), cast("Attaching", host), server.attached)
    thread = threading.Thread(target=relay.run, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made = [Server(), Server(session="s", interrupted=["x1"])]
    yield made
    for it in made:
        it.socket.close()


CALL = {"id": 1, "method": "tools/call", "params": {"name": "execute_code"}}


def test_an_answer_to_a_server_that_ended_is_no_answer_to_the_next(servers: list[Server]) -> None:
    """Servers count their requests from one number. A yes to the question of the first must not allow a call of
    the second."""
    first, second = servers
    host = Host(second)
    relayed(host, first)
    host.send(**CALL)
    first.next()
    first.send(id=0, method="elicitation/create")
    assert host.next()["id"] == 0
    first.end()
    assert "execute_code(resume='x1')" in host.next()["result"]["content"][0]["text"]
    second.send(id=0, method="elicitation/create")
    asked = host.next()
    assert asked["id"] != 0
    host.send(id=0, result={"action": "accept"})
    host.send(id=asked["id"], result={"action": "decline"})
    assert second.next() == {"id": 0, "result": {"action": "decline"}}


def test_the_next_server_gets_the_handshake_and_the_host_no_second_answer(servers: list[Server]) -> None:
    first, second = servers
    host = Host(second)
    relayed(host, first)
    host.send(id=0, method="initialize")
    first.next()
    first.send(id=0, result={"from": "first"})
    assert host.next() == {"id": 0, "result": {"from": "first"}}
    host.send(method="notifications/initialized")
    first.next()
    first.end()
    host.send(id=1, method="ping")
    assert [second.next()["method"] for _ in range(3)] == ["initialize", "notifications/initialized", "ping"]
    second.send(id=0, result={"from": "second"})
    second.send(id=1, result={})
    changed = [host.next()["method"] for _ in range(2)]
    assert changed == ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
    assert host.next() == {"id": 1, "result": {}}


def test_a_message_that_ends_each_server_is_not_sent_for_ever() -> None:
    """A server ends the session of a host that sends more than it takes."""
    servers = [Server() for _ in range(6)]
    for it in servers:
        it.end()
    host = Host(*servers[1:])
    relayed(host, servers[0])
    host.send(id=1, method="ping", params={"text": "x" * 1000})
    assert "does not take this message of 1,0" in host.next()["error"]["message"]
    assert len(host.later) >= 3
    for it in servers:
        it.socket.close()


def test_without_a_server_each_request_is_answered_with_the_reason_until_there_is_one(servers: list[Server]) -> None:
    first, second = servers
    host = Host(None, second)
    thread = relayed(host, first)
    first.end()
    host.send(**CALL)
    refused = host.next()
    assert refused["result"]["isError"]
    assert "no server can be started" in refused["result"]["content"][0]["text"]
    host.send(id=2, method="ping")
    assert second.next()["id"] == 2
    host.close_input()
    second.end()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
