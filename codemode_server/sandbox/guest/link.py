"""The guest's end of the connection: frames to and from the host, and the requests that wait for a reply.

The transport is whatever the backend has: `send(text)` and `receive(timeout_s)`, each a whole frame. Any thread may
send; one pumps, and a backend with real threads gives its own `wait`.

The host takes only so many requests at a time (see `sandbox/frames.py`); the others wait here until one is answered.
"""

from __future__ import annotations

import collections
import json
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from .program_paths import ProgramPaths

# Made now: a program may put its own json.dumps in place later.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder()
PROGRAM_FILE = "program.py"
_MAX_REST_BYTES = 64
"""Bytes of a call's frame beside its head and arguments."""


class Transport(Protocol):
    """Whole frames in both directions."""

    def send(self, text: str) -> None: ...

    def receive(self, timeout_s: float | None) -> str | None:
        """The next frame, or None if there was none in time; None as timeout waits for ever."""


class Refused(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LimitPassed(BaseException):
    """The program is past a limit that the guest can see first; no `except Exception` of the program may swallow it."""

    def __init__(self, setting: str, value: str = "") -> None:
        super().__init__(setting)
        self.setting = setting
        self.value = value
        """Description of the program's value, if that is too large."""


def to_json(value: Any, errors: str = "replace") -> str:
    """Compact JSON that is always valid UTF-8: pairs of surrogates are joined, and lone ones, which no frame can hold,
    are replaced, or raise UnicodeError if `errors` is "strict"."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
    return text


class _Queue:
    """Requests of one kind. Any thread adds to `unsent`, one at a time sends, and one takes answers."""

    def __init__(self) -> None:
        self.max_unanswered = 1
        self.unsent: collections.deque[tuple[str, str, Future[Any]]] = collections.deque()
        """For each: the start of its frame, the (long) JSON of its arguments, and its future."""
        self.unanswered: dict[int, Future[Any]] = {}


class Link:
    """Requests to the host by id, any number in flight."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._calls = _Queue()
        self._others = _Queue()
        """One at a time beside the calls, which may all hang when the program has given them up."""
        self._last_id = 0
        self._outgoing: collections.deque[Callable[[], Iterable[str]]] = collections.deque()
        """Each gives frames when it is their turn; no other thread sends meanwhile."""
        self._sending = threading.Lock()
        self.before_wait: Callable[[], None] = lambda: None
        """Called before the guest waits for the host: what is buffered has to go out first."""
        self.program_paths: ProgramPaths | None = None
        """The paths that no folder has, such as those under /skills, whose files are at the host."""
        self.wait: Callable[[Future[Any]], Any] = self._pump_until_done
        """Blocks until a future is done and gives its result; each backend has its own way to block."""
        self.execution_id = ""
        self.call_bytes = 2**62
        self.call_count = 0
        self._sent_characters = 0
        self._answered_characters = 0

    def cut_off(self) -> None:
        """In a forked process, whose transport refuses each request: it waits for none that the other one made."""
        self._sending = threading.Lock()
        self._outgoing.clear()
        self._calls = self._others = _Queue()
        self._calls.max_unanswered = sys.maxsize

    def begin(self, frame: dict[str, Any]) -> None:
        self.execution_id = frame["execution_id"]
        self.call_bytes = frame["limits"]["call_bytes"]
        self._calls.max_unanswered = frame["limits"]["calls_in_flight"]

    def open(self, timeout_s: float | None = None) -> Any:
        """Wait for the program: the first frame of all; None if it does not come in time."""
        text = self._transport.receive(timeout_s)
        return None if text is None else _DECODER.decode(text)

    def send(self, frame: dict[str, Any]) -> None:
        text = to_json(frame)
        self.send_in_turn(lambda: (text,))

    def send_in_turn(self, frames: Callable[[], Iterable[str]]) -> None:
        """Send what is given once all that was posted before is sent, by this thread or another."""
        self._outgoing.append(frames)
        self._flush()

    def send_last(self, text: str) -> None:
        """Send the last frame, after all that was posted before. It is sent when this returns; nothing follows it."""
        is_over = False

        def last() -> Iterable[str]:
            nonlocal is_over
            is_over = True
            return (text,)

        self._outgoing.append(last)
        self._sending.acquire()  # for good
        while not is_over:
            self._send_next()

    def request(self, op: str, **fields: Any) -> Future[Any]:
        """Ask the host. All but a `read` go before the calls that wait: the program stands still until then."""
        future: Future[Any] = Future()
        queue = self._calls if op == "read" else self._others
        queue.unsent.append((to_json({"op": op, **fields})[1:-1], "", future))
        self._flush()
        return future

    def call(
        self, server: str, tool: str, arguments_json: str, forms: Sequence[Any] = (), *, raw: bool = False
    ) -> Future[Any]:
        """Like `request`, for arguments that are JSON already; `forms` are the other forms of texts in them. Raises
        `LimitPassed` if they are too large; the host knows by then, whatever becomes of the exception."""
        if len(arguments_json) > self.call_bytes or _bytes(arguments_json) > self.call_bytes:
            self.exceed("limits.call_bytes")
        frame = {"op": "call", "server": server, "tool": tool, **({"raw": True} if raw else {})}
        head = to_json({**frame, "forms": forms} if forms else frame)
        if forms and _bytes(head) + _bytes(arguments_json) + _MAX_REST_BYTES > self.call_bytes:
            head = to_json(frame)  # the host counts the whole frame
        future: Future[Any] = Future()
        self._calls.unsent.append((f'{head[1:-1]},"arguments":', arguments_json, future))
        self._flush()
        return future

    def exceed(self, setting: str) -> NoReturn:
        """End the program for a limit; the host knows by then, whatever becomes of the exception."""
        self.send({"op": "exceeded", "setting": setting, "line": _line_of_program()})
        raise LimitPassed(setting)

    def _flush(self) -> None:
        """Send what may be sent, in the order of posting.

        Whoever is sending already sends this too: another thread, or this very one, when an object that is collected in
        the midst of a send prints.
        """
        while (self._outgoing or self._next_queue()) and self._sending.acquire(blocking=False):
            try:
                while self._send_next():
                    pass
            finally:
                self._sending.release()

    def _next_queue(self) -> _Queue | None:
        """The one whose first request the host takes now; other threads change them meanwhile."""
        for queue in (self._others, self._calls):
            if queue.unsent and len(queue.unanswered) < queue.max_unanswered:
                return queue
        return None

    def _send_next(self) -> bool:
        if self._outgoing:
            for text in self._outgoing.popleft()():
                self._transport.send(text)
            return True
        queue = self._next_queue()
        if queue is None:
            return False
        head, body, future = queue.unsent.popleft()
        if future.set_running_or_notify_cancel():  # else whoever asked was cancelled: nothing must happen any more
            self._last_id += 1  # here, since ids have to grow
            queue.unanswered[self._last_id] = future
            self.call_count += bool(body)
            self._sent_characters += len(body)
            self._transport.send(f'{{"id":{self._last_id},{head}{body}}}')
        return True

    def reply(self, op: str, error: Callable[[str], Exception], **fields: Any) -> tuple[Any, str]:
        """Send a request and block until it is answered; gives the value and its encoding. A refusal is raised as
        `error`."""
        try:
            value, encoding = self.wait(self.request(op, **fields))
        except Refused as refusal:
            raise error(str(refusal)) from None
        return value, encoding

    def ask(self, op: str, error: Callable[[str], Exception], **fields: Any) -> Any:
        """Like `reply`, without the encoding."""
        return self.reply(op, error, **fields)[0]

    def _pump_until_done(self, future: Future[Any]) -> Any:
        self.before_wait()
        while not future.done():
            self.pump(None)
        return future.result()

    @property
    def call_characters(self) -> int:
        """Characters of the arguments of all calls, and of their answers."""
        return self._sent_characters + self._answered_characters

    @property
    def in_flight(self) -> int:
        return sum(len(queue.unanswered) + len(queue.unsent) for queue in (self._calls, self._others))

    def pump(self, timeout_s: float | None) -> bool:
        """Receive one reply, if one comes in time."""
        text = self._transport.receive(timeout_s)
        if text is None:
            return False
        reply = _DECODER.decode(text)
        future = self._others.unanswered.pop(reply["id"], None)
        if future is None:
            future = self._calls.unanswered.pop(reply["id"], None)
            self._answered_characters += len(text)
        del text
        self._flush()
        if future is not None and not future.done():  # it is, if whoever asked was cancelled meanwhile
            if reply["ok"]:
                future.set_result((reply["value"], reply.get("encoding", "json")))
            else:
                future.set_exception(Refused(reply["kind"], reply["message"]))
        return True


def _line_of_program() -> int | None:
    """The line of the program that runs now in this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != PROGRAM_FILE:
        frame = frame.f_back
    return None if frame is None else frame.f_lineno


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
