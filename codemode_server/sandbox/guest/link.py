"""The guest's end of the wire: frames to and from the host, and the requests that wait for a reply.

The transport is whatever the backend has: `send(text)` and `receive(timeout_s)`, each a whole frame. Any thread may
send; one pumps, and a backend with real threads gives its own `wait`.
"""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

# Made now: a program may put its own json.dumps in place later.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder()


class Transport(Protocol):
    """Whole frames in both directions."""

    def send(self, text: str) -> None: ...

    def receive(self, timeout_s: float | None) -> str | None:
        """The next frame, or None if there was none in time; None as timeout waits for ever."""


class Refused(Exception):
    """The host answered a request with an error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LimitPassed(BaseException):
    """The program is past a limit that the guest can see first; no `except Exception` of the program may swallow it."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting


def to_json(value: Any) -> str:
    """Compact JSON that is always valid UTF-8: lone surrogates, which no frame can hold, become `?`."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text


class Link:
    """Requests to the host by id, any number in flight."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: dict[int, Future[Any]] = {}
        self._last_id = 0
        self._outgoing: collections.deque[tuple[str, Future[Any] | None]] = collections.deque()
        self._sending = threading.Lock()
        self.before_wait: Callable[[], None] = lambda: None
        """Called before the guest waits for the host: what is buffered has to go out first."""
        self.call_bytes = 2**62

    def open(self) -> dict[str, Any]:
        """Wait for the program: the first frame of all."""
        text = self._transport.receive(None)
        if text is None:
            raise EOFError("the host sent no program")
        frame: dict[str, Any] = _DECODER.decode(text)
        return frame

    def send(self, frame: dict[str, Any]) -> None:
        self._post(to_json(frame), None)

    def send_text(self, text: str) -> None:
        self._post(text, None)

    def request(self, op: str, **fields: Any) -> Future[Any]:
        """Send a request at once; the future settles while anything pumps."""
        future: Future[Any] = Future()
        self._post(to_json({"op": op, **fields}), future)
        return future

    def call(self, server: str, tool: str, arguments_json: str, *, raw: bool = False) -> Future[Any]:
        """Like `request`, for arguments that are JSON already.

        Raises:
            LimitPassed: they are too large; the host knows by then, whatever becomes of the exception.
        """
        if len(arguments_json) > self.call_bytes or len(arguments_json.encode()) > self.call_bytes:
            self.send({"op": "exceeded", "setting": "limits.call_bytes"})
            raise LimitPassed("limits.call_bytes")
        future: Future[Any] = Future()
        head = to_json({"op": "call", "server": server, "tool": tool, **({"raw": True} if raw else {})})
        self._post(f'{head[:-1]},"arguments":{arguments_json}}}', future)
        return future

    def _post(self, text: str, future: Future[Any] | None) -> None:
        """Send in the order of posting; a request gets its id here, since ids have to grow.

        Whoever is sending already sends this one too: another thread, or this very one, when an object that is
        collected in the midst of a send prints.
        """
        self._outgoing.append((text, future))
        while self._outgoing and self._sending.acquire(blocking=False):
            try:
                while self._outgoing:
                    text, future = self._outgoing.popleft()
                    if future is not None:
                        self._last_id += 1
                        self._waiting[self._last_id] = future
                        text = f'{{"id":{self._last_id},{text[1:]}'
                    self._transport.send(text)
            finally:
                self._sending.release()

    def ask(self, op: str, **fields: Any) -> Any:
        """Send a request and block until it is answered."""
        return self.wait(self.request(op, **fields))

    def wait(self, future: Future[Any]) -> Any:
        self.before_wait()
        while not future.done():
            self.pump(None)
        return future.result()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def pump(self, timeout_s: float | None) -> bool:
        """Take one reply in, if one comes in time."""
        text = self._transport.receive(timeout_s)
        if text is None:
            return False
        reply = _DECODER.decode(text)
        future = self._waiting.pop(reply["id"], None)
        if future is None or future.done():
            return True  # whoever asked was cancelled meanwhile
        if reply["ok"]:
            future.set_result((reply["value"], reply.get("encoding", "json")))
        else:
            future.set_exception(Refused(reply["kind"], reply["message"]))
        return True
