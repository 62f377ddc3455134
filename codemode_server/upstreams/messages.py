"""Parses the JSON-RPC messages in a line of an upstream's stdout, or in a body or event over HTTP.

mcp reads a line with a pydantic union over all four kinds of message. That tries each kind over the whole tree: 5.2 s
for 23 MiB of rows, which `json.loads` reads in 0.5 s. It also refuses a line for a lone surrogate, a byte that is no
UTF-8, or an `id` without `jsonrpc`, and the caller then waits for its timeout. Here such a line is read as what it
plainly means.

What is too long, has too many values, is nested too deep or is no JSON is not read. The call that it answers is found
by its `id`, which mostly stands at the beginning or the end, and fails at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from codemode_server.support.json_values import (
    MAX_VALUES,
    holds_surrogate_escapes,
    holds_too_many_values,
    is_nested_deeper,
    replace_lone_surrogates,
)
from codemode_server.support.off_loop import LARGE_BYTES

if TYPE_CHECKING:
    from mcp_types import JSONRPCError, JSONRPCMessage

NO_MESSAGE = -32_094
"""Code of the error for a body without a message, which stands whole after the first of `UNREADABLE`."""
UNREADABLE = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")
"""How the message for a body that can't be read begins. mcp's ends with a part of it, cut before it is masked."""
MAX_MESSAGE_BYTES = 16 * 2**20
"""Longest message taken from an upstream, unless `limits.call_bytes` is larger."""
MAX_DEPTH = 500
"""Nesting of a message; half of what Python can walk. A value may have less, and a schema of a listing more than its
stub shows: one tool that is nested deep must not cost the others."""
MAX_VALUE_DEPTH = 200
"""Nesting of a value that a program gets; deeper is not data, and could break those who handle it later."""
TOO_LARGE = -32_098
TOO_DEEP = -32_097
NO_JSON = -32_096
NOT_DECODABLE = -32_095
"""Codes of the error in place of an answer that was not taken; its message goes on after "the result of … is"."""
NOT_TAKEN = frozenset({TOO_LARGE, TOO_DEEP, NO_JSON, NOT_DECODABLE})
_WHY_TOO_DEEP = f"nested more than {MAX_DEPTH} deep; ask for a part of it"
_MAX_BATCH = 1_000
_END_BYTES = 4 * 2**10
"""How much of both ends is searched for the id."""
_MAX_ERROR_CHARACTERS = 64 * 2**10
_ID_AT_END = re.compile(rb'[,{]\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_ERROR_FIELDS = frozenset({"code", "message", "data"})
_ANSWER_BEGINS = re.compile(rb'\{\s*"(?:jsonrpc|id|result|error)"\s*:')
_MAX_BEGINNINGS = 8
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_line(line: bytes | bytearray) -> tuple[JSONRPCMessage, ...]:
    """The messages in `line`: one, none for what is not JSON-RPC, several for a batch (2025-03-26 allowed them)."""
    if len(line) > MAX_VALUES and holds_too_many_values(line):
        return _refused(line, TOO_LARGE, f"of more than {MAX_VALUES:,} values; ask for less of it")
    try:
        data = _read(line)
    except ValueError:
        # Other text on stdout may have an id as well.
        is_message = b'"jsonrpc"' in line
        return _within_text(line) or _refused(line, NO_JSON, "not valid JSON") if is_message else ()
    except RecursionError:
        return _refused(line, TOO_DEEP, _WHY_TOO_DEEP)
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and is_nested_deeper(data, MAX_DEPTH):
        return _refused(line, TOO_DEEP, _WHY_TOO_DEEP)
    if isinstance(data, dict) and len(line) <= LARGE_BYTES:
        message = _to_message(data)
        return () if message is None else (message,)
    messages = (_to_message(item) for item in (data[:_MAX_BATCH] if isinstance(data, list) else [data]))
    found = tuple(message for message in messages if message is not None)
    return tuple(map(_trimmed, found)) if len(line) > LARGE_BYTES else found


class JoinedLines:
    """Joins the lines of an object that was written with indentation."""

    def __init__(self) -> None:
        self._object = bytearray()

    def add(self, line: bytes | bytearray) -> bytes:
        """The object of which this is the last line; nothing for any other line."""
        if line.rstrip() == b"{":
            self._object = bytearray()
        elif not self._object or len(self._object) + len(line) > LARGE_BYTES:
            self._object = bytearray()
            return b""
        self._object += line
        return bytes(self._object) if line.rstrip() == b"}" else b""


def _within_text(line: bytes | bytearray) -> tuple[JSONRPCMessage, ...]:
    """The first answer with other text around it: a BOM, a log line without its end, events, warnings of PHP. A logged
    request is none."""
    begins = [it.start() for it in islice(_ANSWER_BEGINS.finditer(line, 0, _END_BYTES), _MAX_BEGINNINGS)]
    for begin in begins:
        try:
            data = json.JSONDecoder().raw_decode(line[begin:].decode("utf-8", "replace"))[0]
        except (ValueError, RecursionError):
            continue
        if "method" not in data and not is_nested_deeper(data, MAX_DEPTH):
            message = _to_message(without_surrogates(data))
            if message is not None:
                return (message,)
    return ()


def _read(line: bytes | bytearray) -> Any:
    """`line` as JSON. pydantic reads bytes without a text of them all; it takes nothing that json would not take, or
    would read as something else, but json takes a little more."""
    from pydantic_core import from_json

    try:
        return from_json(line, cache_strings="keys")
    except ValueError:
        pass
    if holds_surrogate_escapes(line):
        line = line if isinstance(line, bytearray) else bytearray(line)
        replace_lone_surrogates(line, "\ufffd")
    try:
        line.decode()
    except UnicodeDecodeError:
        line = line.decode("utf-8", "replace").encode()
    try:
        return from_json(line, cache_strings="keys")
    except ValueError:
        return json.loads(line.decode())


@dataclass(frozen=True, slots=True)
class Unread:
    """Facts about an unread message from its beginning and its end."""

    answers: int | str | None = None
    """Id of the call that it answers; None if it answers none or that is unknown."""
    is_known: bool = False
    """True if that is known; a request or notification of the server answers no call."""

    @classmethod
    def of(cls, head: bytes, tail: bytes) -> Unread:
        """The id of a response is among the first fields of the object, or its last field."""
        fields = first_fields(head.decode("utf-8", "replace"))
        if fields is None:
            return cls()
        if "method" in fields:
            return cls(is_known=True)
        found = fields.get("id")
        if found is None and (last := _ID_AT_END.search(tail)):
            try:
                found = json.loads(last[1])
            except ValueError:  # a control character, or bytes that are no UTF-8
                return cls()
        is_id = isinstance(found, int | str) and not isinstance(found, bool)
        return cls(without_surrogates(found), is_known=True) if is_id else cls()


def too_large(request_id: int | str, most: int) -> JSONRPCError:
    """The error for a call whose answer has more than `most` bytes."""
    why = f"larger than {most / 2**20:.3g} MiB; ask for less of it (the user can raise limits.call_bytes)"
    return _refusal(request_id, TOO_LARGE, why)


def unreadable(request_id: int | str, body: bytes) -> JSONRPCError:
    """The error for a call that was answered with a `body` that holds no message."""
    return _refusal(request_id, NO_MESSAGE, UNREADABLE[0] + body.decode("utf-8", "replace"))


def not_decodable(request_id: int | str, coding: str) -> JSONRPCError:
    """The error for a call whose answer can't be decoded as its header says."""
    return _refusal(request_id, NOT_DECODABLE, f"not valid {coding}, which its Content-Encoding header says it is")


def _refused(line: bytes | bytearray, code: int, why: str) -> tuple[JSONRPCMessage, ...]:
    unread = Unread.of(bytes(line[:_END_BYTES]), bytes(line[-_END_BYTES:]))
    return () if unread.answers is None else (_refusal(unread.answers, code, why),)


def _refusal(request_id: int | str, code: int, why: str) -> JSONRPCError:
    import mcp_types as types

    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=why))


def first_fields(text: str) -> dict[str, Any] | None:
    """The fields at the beginning of a JSON object that is cut off somewhere; None for anything else."""
    decoder, fields = json.JSONDecoder(), dict[str, Any]()
    place = _after_space(text, 0)
    if text[place : place + 1] != "{":
        return None
    try:
        while text[place : place + 1] in ("{", ","):
            key, place = decoder.raw_decode(text, _after_space(text, place + 1))
            place = _after_space(text, place)
            if not isinstance(key, str) or text[place : place + 1] != ":":
                break
            value, place = decoder.raw_decode(text, _after_space(text, place + 1))
            if place == len(text):  # a number may go on
                break
            fields[key] = value
            place = _after_space(text, place)
    except (ValueError, RecursionError):
        pass
    return fields


def _after_space(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\t", "\r", "\n"):
        place += 1
    return place


def _trimmed(message: JSONRPCMessage) -> JSONRPCMessage:
    """The message itself, or an error without its large parts, which are unused."""
    import mcp_types as types

    if not isinstance(message, types.JSONRPCError):
        return message
    error, data = message.error, message.error.data
    data = (data if isinstance(data, str) else json.dumps(data))[:_MAX_ERROR_CHARACTERS] if data else None
    cut = types.ErrorData(code=error.code, message=error.message[:_MAX_ERROR_CHARACTERS], data=data)
    return types.JSONRPCError(jsonrpc="2.0", id=message.id, error=cut)


def without_surrogates(value: Any) -> Any:
    """`value` with lone surrogates in its strings replaced: no UTF-8 can hold them."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def _to_message(data: Any) -> JSONRPCMessage | None:
    import mcp_types as types

    if not isinstance(data, dict):
        return None
    identity, method, error = data.get("id"), data.get("method"), data.get("error")
    params = data.get("params")
    if isinstance(identity, float) and identity.is_integer():
        identity = int(identity)
    says_error = any(error.values()) if isinstance(error, dict) else bool(error)
    try:
        if isinstance(method, str):
            fields = {"jsonrpc": "2.0", "method": method} | ({"params": params} if isinstance(params, dict) else {})
            if identity is None:
                return types.JSONRPCNotification.model_validate(fields)
            return types.JSONRPCRequest.model_validate(fields | {"id": identity})
        if says_error or (error is not None and data.get("result") is None):
            return types.JSONRPCError(jsonrpc="2.0", id=identity, error=_to_error(error))
        if "result" in data and identity is not None:
            result = data["result"]
            if not isinstance(result, dict):
                result = {} if result is None else {"toolResult": result}
            return types.JSONRPCResponse(jsonrpc="2.0", id=identity, result=result)
        if "jsonrpc" in data and identity is not None:
            return _refusal(identity, NO_JSON, "missing: its answer has neither a result nor an error")
    except ValueError:  # pydantic's ValidationError: an id that is neither text nor a number
        return None
    return None


def _to_error(error: Any) -> Any:
    import mcp_types as types

    if not isinstance(error, dict):
        return types.ErrorData(code=0, message=error if isinstance(error, str) else json.dumps(error, default=str))
    code, message, data = error.get("code"), error.get("message"), error.get("data")
    beside = {name: value for name, value in error.items() if name not in _ERROR_FIELDS}
    if isinstance(message, str) and beside:
        own = {} if data is None else {"data": data}
        data = beside | (data if isinstance(data, dict) else own)
    return types.ErrorData(
        code=code if isinstance(code, int) else 0,
        message=message
        if isinstance(message, str)
        else json.dumps(error, default=str)
        if error
        else "the server answered with an empty error",
        data=data,
    )
