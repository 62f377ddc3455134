"""The first requests of a host over stdio, answered before the MCP library is imported, which takes most of a start.

Only requests of exactly the usual form are answered here, as the server would answer them
(`tests/mcp_server/test_opening_requests` compares both). The first message of another kind ends the opening. The server
then reads all messages from the beginning, so that it knows the session; what it answers to those that were answered is
not sent.
"""

from __future__ import annotations

import io
import json
import os
import queue
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from codemode_server import __version__
from codemode_server.mcp_server.instructions import INSTRUCTIONS

Definitions = list[dict[str, Any]]

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID, PROTOCOL_VERSION = f"{_META}subscriptionId", f"{_META}protocolVersion"
"""Keys of `_meta`."""
_CHANGES = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": False}
"""Kinds of changes, true if they are announced: the list of our own resources is always empty."""
CAPABILITIES = {
    "prompts": {"listChanged": True},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": True},
}
_LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_META_KEYS = {f"{_META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
_MESSAGE_FIELDS = {"jsonrpc", "id", "method", "params"}
_SURROGATE, _SURROGATE_UPPER = b"\\ud", b"\\uD"
"""The start of the escapes of half characters."""
_FIRST_SECONDS = 0.5
"""How long the first request is waited for."""
_POLL_SECONDS = 0.02
"""How often a wait for the next request looks whether the server is loaded."""
_MAX_WAITING_LINES = 8
_MAX_LINE_BYTES = 65_536
_MAX_BRACKETS = 100


class HostStreams:
    """A host's input and output streams. A thread reads the input, so that waiting for a line can time out."""

    def __init__(self, received: BinaryIO, sent: BinaryIO) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue(_MAX_WAITING_LINES)
        self.sent = sent
        threading.Thread(target=self._read, args=(received,), daemon=True, name="stdin").start()

    @classmethod
    def standard(cls) -> HostStreams:
        """Takes standard input and output for itself: no other code of this process or a child can use them."""
        received, sent = _duplicate(0), _duplicate(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2 if sys.__stderr__ is not None else nothing, 1)
        os.close(nothing)
        return cls(os.fdopen(received, "rb"), os.fdopen(sent, "wb"))

    def next_line(self, timeout_s: float | None = None) -> bytes | None:
        """The next line; empty at the end of the input, None if the time runs out."""
        try:
            return self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _read(self, received: BinaryIO) -> None:
        line = b"-"
        with received:
            while line:
                line = received.readline()
                self._lines.put(line)


@dataclass(frozen=True, slots=True)
class FirstLists:
    """What a host is offered, as of the last run."""

    tools: Definitions
    prompts: Definitions = field(default_factory=list)


class Start(Protocol):
    """What the first requests need."""

    def lists(self) -> FirstLists | None:
        """The lists that the last run wrote for this configuration, or new ones; None if it can't be used. Called in a
        thread."""

    def load_server(self) -> None:
        """Import what the server needs; called in that thread after `lists`."""


class Opening:
    """Answers one host's first messages, until the server takes over."""

    def __init__(self, streams: HostStreams, start: Start) -> None:
        self._streams = streams
        self._start = start
        self._server = {"name": "codemode-server", "title": "codemode-server", "version": __version__}
        self._lines: list[bytes] = []
        self._answered_keys: list[tuple[str, Any] | None] = []
        self._is_initialized = False
        self._loading = threading.Thread(target=self._load, daemon=True, name="loading")
        self._lists: FirstLists | None = None
        self._are_known = threading.Event()
        self.definitions: Definitions | None = None
        """The answer to `tools/list`, once `run` has ended; None if it is not known then."""

    def run(self) -> None:
        """Answer what can be answered here, until the server is loaded: that begins in a thread once the first request
        is answered."""
        line = self._streams.next_line(_FIRST_SECONDS)
        while line is not None:
            self._lines.append(line)
            if not self._try_to_answer(line):
                break
            if self._loading.ident is None:
                self._loading.start()
            while (line := self._streams.next_line(_POLL_SECONDS)) is None and self._loading.is_alive():
                pass
        if self._loading.ident is not None:
            self._loading.join()  # two threads that import the same packages would meet in a deadlock of their locks
            self.definitions = None if self._lists is None else self._lists.tools

    def _load(self) -> None:
        try:
            self._lists = self._start.lists()
        finally:
            self._are_known.set()
        self._start.load_server()

    def _known(self) -> FirstLists | None:
        if self._loading.ident is None:
            self._loading.start()
        self._are_known.wait()
        return self._lists

    def _try_to_answer(self, line: bytes) -> bool:
        """Answer a message if that can be done here; false if the server has to take over."""
        message = _message(line)
        if message.get("method") == "notifications/initialized":
            return self._is_initialized and "id" not in message and not message.get("params")
        result = self._result(message)
        if result is None:
            return False
        self._send(message, result)
        return True

    def streams(self) -> tuple[HostStdin, HostStdout]:
        """The streams that the server uses in place of standard input and output."""
        return HostStdin(self._streams, self._lines), HostStdout(self._streams.sent, self._answered_keys)

    def _send(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        if request["method"] == LISTEN:  # its result comes when it ends; the server sends that
            meta = {SUBSCRIPTION_ID: request["id"]}
            answer = {"jsonrpc": "2.0", "method": _ACKNOWLEDGED, "params": {"_meta": meta, **result}}
        else:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        with suppress(BrokenPipeError):  # the host is gone, as the end of its input says
            self._streams.sent.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            self._streams.sent.flush()
        self._answered_keys.append(_answer_key(answer))

    def _result(self, message: dict[str, Any]) -> dict[str, Any] | None:
        request_id, params = message.get("id"), message.get("params")
        if type(request_id) not in (int, str) or not isinstance(params, dict | None):
            return None
        params = {key: value for key, value in (params or {}).items() if value is not None}
        meta = params.get("_meta", {})
        if not isinstance(meta, dict) or type(meta.get("progressToken", "")) not in (int, str):
            return None
        is_modern = PROTOCOL_VERSION in meta
        match message.get("method"):
            case "initialize" if not self._lines[1:] and not is_modern and _is_usual_handshake(params):
                self._is_initialized = True
                return {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": CAPABILITIES,
                    "serverInfo": self._server,
                    "instructions": INSTRUCTIONS,
                }
            case "server/discover" if set(params) == {"_meta"} and self._is_usual(meta):
                return self._modern(
                    supportedVersions=[MODERN_VERSION],
                    capabilities=CAPABILITIES,
                    instructions=INSTRUCTIONS,
                )
            case "subscriptions/listen" if set(params) == {"_meta", "notifications"} and self._is_usual(meta):
                wanted = params["notifications"]
                if (
                    isinstance(wanted, dict)
                    and wanted.keys() <= _CHANGES.keys()
                    and {*map(type, wanted.values())} <= {bool}
                ):
                    return {"notifications": {name: True for name in wanted if wanted[name] and _CHANGES[name]}}
            case "tools/list" | "prompts/list" as method if set(params) <= {"_meta"} and (lists := self._known()):
                if method == "prompts/list":
                    return self._listed_as({"prompts": lists.prompts}, meta)
                return self._listed_as({"tools": lists.tools}, meta)
            case "resources/list" | "resources/templates/list" as method if set(params) <= {"_meta"}:
                return self._listed_as({_LISTS[method]: []}, meta)
            case "ping" if self._is_initialized and not is_modern:
                return {}
        return None

    def _listed_as(self, listed: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
        """A list, as the protocol of the session has it; None if the request is not a usual one."""
        if self._is_initialized and PROTOCOL_VERSION not in meta:
            return listed
        return self._modern(**listed) if self._is_usual(meta) else None

    def _is_usual(self, meta: dict[str, Any]) -> bool:
        """True if a request is one of the newest protocol, from a client that has not begun with an older one."""
        if self._is_initialized or meta.get(PROTOCOL_VERSION) != MODERN_VERSION:
            return False
        client = meta.get(f"{_META}clientInfo")
        is_client = client is None or _is_client(client)
        is_known = not {key for key in meta if key.startswith(_META)} - _META_KEYS
        return is_client and is_known and _are_capabilities(meta.get(f"{_META}clientCapabilities"))

    def _modern(self, **result: Any) -> dict[str, Any]:
        stamp = {f"{_META}serverInfo": self._server}
        return {**result, "resultType": "complete", "cacheScope": "private", "ttlMs": 0, "_meta": stamp}


class HostStdin(io.TextIOBase):
    """All lines of the host from the first one, including those that were answered already."""

    def __init__(self, streams: HostStreams, lines: list[bytes]) -> None:
        self._streams = streams
        self._lines = lines

    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override] # whole lines only
        line = self._lines.pop(0) if self._lines else self._streams.next_line()
        data = bytearray(line or b"")
        if _SURROGATE in data or _SURROGATE_UPPER in data:
            from codemode_server.support.json_values import replace_lone_surrogates

            replace_lone_surrogates(data, "\ufffd")  # the server's parser refuses half a character without an answer
        return data.decode("utf-8", "replace")


class HostStdout(io.TextIOBase):
    """Writes the server's messages to the host, except for answers to requests that were answered already."""

    def __init__(self, sent: BinaryIO, answered_keys: list[tuple[str, Any] | None]) -> None:
        self._sent = sent
        self._answered_keys = answered_keys

    def write(self, text: str, /) -> int:
        if self._answered_keys:
            key = _answer_key(json.loads(text))
            if key in self._answered_keys:
                self._answered_keys.remove(key)
                return len(text)
        self._sent.write(text.encode())
        return len(text)

    def flush(self) -> None:
        self._sent.flush()

    def leave_out_answer(self, request: dict[str, Any]) -> None:
        """The host has its answer to this request already, from another server."""
        kind = _ACKNOWLEDGED if request["method"] == LISTEN else "result"
        self._answered_keys.append((kind, request["id"]))


def _duplicate(fd: int) -> int:
    """A copy of a standard stream's descriptor that children don't inherit."""
    if sys.platform == "win32":
        return os.dup(fd)
    import fcntl

    # Not by `os.dup`, which gives the number of standard error where a host has closed that.
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _message(line: bytes) -> dict[str, Any]:
    """The message on a line; an empty one if it is too large or malformed to be answered here."""
    # The server's parser refuses half a character in an escape and deep nesting, where Python's does not.
    is_nested = line.count(b"{") + line.count(b"[") > _MAX_BRACKETS
    if len(line) > _MAX_LINE_BYTES or is_nested or _SURROGATE in line or _SURROGATE_UPPER in line:
        return {}
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return {}
    is_message = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and set(message) <= _MESSAGE_FIELDS
    return message if is_message else {}


def _answer_key(answer: dict[str, Any]) -> tuple[str, Any] | None:
    """The kind of answer and the id of the request that it answers; None if the message is no answer."""
    match answer:
        case {"method": "notifications/subscriptions/acknowledged", "params": {"_meta": {**meta}}}:
            return _ACKNOWLEDGED, meta.get(SUBSCRIPTION_ID)
        case {"method": _}:
            return None
    return "result", answer.get("id")


def _is_usual_handshake(params: dict[str, Any]) -> bool:
    is_known = params.get("protocolVersion") in HANDSHAKE_VERSIONS
    return is_known and _is_client(params.get("clientInfo")) and _are_capabilities(params.get("capabilities"))


def _is_client(info: Any) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)


def _are_capabilities(capabilities: Any) -> bool:
    return isinstance(capabilities, dict) and all(isinstance(one, dict) for one in capabilities.values())
