"""Passes a host's messages on to the server, and outlives it.

When the server has ended, its requests under way are answered as interrupted, and the next one starts another: the
session begins there with the lines that began it here. A request of the old server that the host answers later is no
request of the new one, so the requests of each server after the first have ids of their own.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from codemode_server.mcp_server.opening import LISTEN, PROTOCOL_VERSION, SUBSCRIPTION_ID, HostStdin, HostStdout
from codemode_server.shim.attaching import Attached, Attaching, NotAttached

_INTERNAL_ERROR = -32603
_TRIES = 2
"""A message that ends each server that receives it must not be sent for ever."""
_LAST_ANSWERS_SECONDS = 5.0
"""For the server to end the session once the host has gone."""
_LISTS = ("tools", "prompts")


@dataclass(slots=True)
class _Request:
    """A request of the host without an answer."""

    line: str
    message: dict[str, Any]
    is_sent: bool = False

    @property
    def listens(self) -> bool:
        """True if it is answered at the end of the session, and gets notifications until then."""
        return bool(self.message["method"] == LISTEN)

    @property
    def params(self) -> dict[str, Any]:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}


class Relay:
    """One host's session, over as many servers as it takes."""

    def __init__(self, host: HostStdin, sent: HostStdout, attaching: Attaching, attached: Attached) -> None:
        """`attached` is the server of the beginning."""
        self._host, self._sent, self._attaching = host, sent, attaching
        self._writing, self._changing = threading.Lock(), threading.RLock()
        self._handshake: list[str] = []
        self._requests: dict[str, _Request] = {}
        self._number = 0
        """Of the server: 0 is the first one."""
        self._asked: dict[str, Any] = {}
        """The ids of the server's requests that the host has not answered, by the ids that the host has for them."""
        self._connection: Attached | None = None
        self._receiver = threading.Thread()
        self._is_ending = False
        self._follow(attached)

    def run(self) -> None:
        """Return when the host has closed its input, and the server has ended the session."""
        while line := self._host.readline():
            self._take(line)
        self._is_ending = True
        with self._changing:
            connection, receiver = self._connection, self._receiver
        if connection is not None:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            receiver.join(_LAST_ANSWERS_SECONDS)

    def _take(self, line: str) -> None:
        """Send a line of the host to the server."""
        message = _parsed(line)
        request = _Request(line, message)
        if "id" in message and "method" in message:
            self._requests[_id(message)] = request
        elif "id" in message:
            asked = self._asked.pop(_id(message), None)
            if asked is None:
                return  # the server that asked has ended
            request.line = _line(message | {"id": asked}) if self._number else line
        if self._send(request) and message.get("method") in ("initialize", "notifications/initialized"):
            self._handshake.append(line)

    def _send(self, request: _Request) -> bool:
        """Send to the server, which is started again if there is none; false if there can't be one."""
        data = request.line.encode("utf-8", "surrogatepass")
        for _ in range(_TRIES):
            try:
                with self._changing:
                    connection = self._connection or self._reattach()
            except NotAttached as error:
                self._interrupt([request], [], str(error))
                return False
            try:
                connection.socket.sendall(data)
            except OSError:
                self._lose(connection)
                continue
            with self._changing:
                request.is_sent = True
                if self._connection is not connection:  # it ended meanwhile
                    self._answer_lost()
            return True
        self._interrupt([request], [], f"the running server does not take this message of {len(data):,} bytes")
        return False

    def _follow(self, connection: Attached) -> None:
        self._connection = connection
        self._receiver = threading.Thread(
            target=self._receive, args=(connection, self._number), daemon=True, name="server"
        )
        self._receiver.start()

    def _receive(self, connection: Attached, number: int) -> None:
        with suppress(OSError, ValueError):
            while (line := connection.received.readline()).endswith(b"\n"):
                self._pass_on(line.decode("utf-8", "replace"), number)
        self._lose(connection)

    def _pass_on(self, line: str, number: int) -> None:
        """Write a line of the server to the host."""
        message = _parsed(line)
        if "id" in message and "method" in message:
            asked = message["id"]
            if number:
                message["id"] = f"{number}/{json.dumps(asked)}"
                line = _line(message)
            self._asked[_id(message)] = asked
        elif "id" in message:
            self._requests.pop(_id(message), None)
        self._write(line)

    def _write(self, line: str) -> None:
        with self._writing, suppress(BrokenPipeError):  # the host has gone, as the end of its input says
            self._sent.write(line)
            self._sent.flush()

    def _lose(self, connection: Attached) -> None:
        """The server has ended: answer what it left unanswered."""
        with self._changing:
            if self._connection is not connection:
                return
            self._connection = None
            self._asked.clear()
            connection.socket.close()
            if self._is_ending:
                return
            self._attaching.reap()
            self._answer_lost()

    def _answer_lost(self) -> None:
        """Answer the requests that a server got and left unanswered; without any, the next one starts a server."""
        lost = [it for it in self._requests.values() if it.is_sent and not it.listens]
        if not lost:
            return
        try:
            connection = self._connection or self._reattach()
            self._interrupt(lost, connection.answer.get("interrupted", []))
        except NotAttached as error:
            self._interrupt(lost, [], str(error))

    def _reattach(self) -> Attached:
        """Begin the session anew at a server, and say that lists may have changed. Raises `NotAttached`."""
        attached = self._attaching.attach()
        self._number += 1
        listening = [it for it in self._requests.values() if it.is_sent and it.listens]
        for line in (*self._handshake, *(it.line for it in listening)):
            if "id" in (message := _parsed(line)):
                self._sent.leave_out_answer(message)
            with suppress(OSError):  # it has ended already, as the receiver finds
                attached.socket.sendall(line.encode("utf-8", "surrogatepass"))
        self._follow(attached)
        for name in _LISTS:
            changed: dict[str, Any] = {"jsonrpc": "2.0", "method": f"notifications/{name}/list_changed"}
            if self._handshake:
                self._write(_line(changed))
            for it in listening:
                if it.params.get("notifications", {}).get(f"{name}ListChanged"):
                    self._write(_line(changed | {"params": {"_meta": {SUBSCRIPTION_ID: it.message["id"]}}}))
        return attached

    def _interrupt(self, requests: list[_Request], executions: list[str], why: str = "") -> None:
        """Answer these requests as interrupted, and `executions` as what can be resumed."""
        for request in requests:
            if "method" in request.message and self._requests.pop(_id(request.message), None) is not None:
                answer = {"jsonrpc": "2.0", "id": request.message["id"], **_interruption(request, executions, why)}
                self._write(_line(answer))


def _interruption(request: _Request, executions: list[str], why: str) -> dict[str, Any]:
    """The result or the error of a request that was under way."""
    text = why or "codemode-server ended in the middle of it, and is running again"
    if request.message["method"] != "tools/call":
        return {"error": {"code": _INTERNAL_ERROR, "message": f"interrupted: {text}"}}
    if executions:
        ids = " or ".join(f"execute_code(resume={it!r})" for it in executions)
        text += f". Go on with {ids} and no code: calls that were answered are not sent again"
    result: dict[str, Any] = {"content": [{"type": "text", "text": f"status: interrupted\n{text}."}], "isError": True}
    if PROTOCOL_VERSION in request.params.get("_meta", {}):
        result["resultType"] = "complete"
    return {"result": result}


def _id(message: dict[str, Any]) -> str:
    """The id as a key: 1 is not "1"."""
    return json.dumps(message["id"])


def _line(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\n"


def _parsed(line: str) -> dict[str, Any]:
    """The message on a line; empty if it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
