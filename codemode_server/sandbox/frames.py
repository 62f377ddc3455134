"""The protocol between host and guest, the same for every backend: the frames of guests and their limits.

`host_frames` writes those of the host.

A frame (see `processes.framing`) is UTF-8 JSON, an object with `op`.

    host → guest   run {id, code, limits, modules, repeat}     modules: answers to `load` that it need not ask for
                                                               repeat {key}: of its randomness
                   reply {id, ok: true, value, encoding}       encoding: json | blocks
                   reply {id, ok: false, kind, message}        kind: an error's code, e.g. unknown_tool
    guest → host   call {id, server, tool, arguments, raw}     answered by a reply; raw may be missing
                   read {id, server, uri, arguments}           a resource; answered by a reply; arguments may be missing
                   resources {id, server}                      those that a server lists; answered by a reply
                   load {id, module}                           answered by a reply
                   search {id, query, detail_level, server, effect, limit}    answered by a reply; effect may be missing
                   show {id, data, mime_type, name}            data in base64; answered by a reply
                   skill {id, name, text}                      saves a skill; answered by a reply
                   artifact {id, name}                         name null for the names; answered by a reply
                   output {stream, text}                       stream: stdout | stderr
                   line {line}                                 the program reached this line for the first time
                   exceeded {setting, line, value}             the guest saw a limit first, and ends; line may be null,
                                                               value says what a value is that is too large
                   done {id, value, value_form, error, hint}   the last frame; id is the run's, not to be guessed

Request ids are integers that grow. Unknown fields are ignored; an unknown op, a wrong type or a broken length is a
`ProtocolError`, after which the sandbox is not to be trusted with anything.

How much may be on its way, so that neither end has to hold more than it can:

* The guest has at most `limits.calls_in_flight` calls (`call`, `read`) and one other request unanswered; it keeps the
  rest in its own memory. A guest that sends more is not read from until the host has sent an answer.
* The host also stops reading while the arguments of the calls that are being made take more memory than one call may.
  They make room when the call is done, which no guest can delay; so a guest may write a frame before it reads any.
* Otherwise the host reads on, whether or not the guest reads its answers: an honest guest's write always ends.
* A frame holds at most `json_values.MAX_VALUES` values and keys; they are counted before it is parsed.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any, Literal

from codemode_server.domain.ids import JsonValue
from codemode_server.json_values import MAX_VALUES, holds_too_many_values, read_json, values_at_most
from codemode_server.processes import framing
from codemode_server.sandbox.contract import Limits, ProgramError
from codemode_server.sandbox.text_memory import text_memory

MAX_DEPTH = 128
"""Maximum nesting of a guest's frame; deeper values could break code that handles them later."""
_OVERHEAD = 64 * 2**10
"""Bytes that a frame needs beside its payload."""
_MAX_NAME = 500
MAX_URI = 8_192
"""Characters of a resource's URI."""
_MAX_TEXT = 20_000
_MAX_HINT = 1_000
_MAX_LINE = 10**7
"""Largest line number; no program has so many lines."""
_VALUE_BYTES = 64
"""Memory of a small value, with its place in a list."""
GUEST_LIMITS = frozenset({"limits.call_bytes", "limits.value_bytes", "values"})
"""Limits that a guest detects before the host: otherwise it would have to send a frame that is too long. `values`: the
program's value holds too many values."""


class ProtocolError(framing.FramingError):
    """Raised when a guest sends what no honest guest sends."""


class TooManyValues(Exception):
    """Raised when a frame holds more values than may be parsed."""


@dataclass(frozen=True, slots=True)
class Call:
    """The program calls a tool."""

    id: int
    server: str
    tool: str
    arguments: dict[str, Any]
    size: int
    """Bytes of the whole frame."""
    memory: int
    """Bytes of memory that the arguments take at most."""
    is_raw: bool = False
    """True if the program wants the whole result, as the upstream sent it."""

    @property
    def title(self) -> str:
        return f"{self.server}.{self.tool}"


@dataclass(frozen=True, slots=True)
class Read:
    """The program reads a resource that a call gave it a link to, or that the server lists."""

    id: int
    server: str
    uri: str
    arguments: dict[str, Any]
    size: int
    """Bytes of the whole frame."""
    memory: int
    """Bytes of memory that the frame takes at most."""

    @property
    def title(self) -> str:
        return f"reading {self.uri[:_MAX_NAME]!r}"


@dataclass(frozen=True, slots=True)
class Resources:
    """The program asks for the resources that a server lists."""

    id: int
    server: str


@dataclass(frozen=True, slots=True)
class Load:
    """The program imports a module whose source the host has."""

    id: int
    module: str


@dataclass(frozen=True, slots=True)
class Search:
    """The program searches for tools."""

    id: int
    query: str
    detail_level: str
    server: str | None
    limit: int
    effect: str | None = None


@dataclass(frozen=True, slots=True)
class Show:
    """The program shows a file to the model."""

    id: int
    data: bytes
    mime_type: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class SavedSkill:
    """The program saves a skill."""

    id: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """The program reads an artifact of an earlier one; with `name` None, the names of all."""

    id: int
    name: str | None


@dataclass(frozen=True, slots=True)
class Output:
    """The program printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """The program reached a line of its own for the first time."""

    line: int


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The program has exceeded a limit."""

    setting: str
    line: int | None = None
    """Where in the program."""
    value: str = ""
    """Description of the program's value, if that is too large."""


@dataclass(frozen=True, slots=True)
class Done:
    """The program has ended."""

    id: str
    value: JsonValue
    value_form: Literal["none", "json", "repr"]
    error: ProgramError | None
    size: int
    hint: str = ""


GuestFrame = Call | Read | Resources | Load | Search | Show | SavedSkill | Artifact | Output | Line | Exceeded | Done


def parse(data: bytes) -> GuestFrame:
    """Parse one frame of a guest.

    Raises:
        ProtocolError: it is not a valid frame.
        TooManyValues: it was not parsed, since it holds too many values.
    """
    values = values_at_most(data)
    if values > MAX_VALUES and holds_too_many_values(data):
        raise TooManyValues
    try:
        frame = read_json(data)
    except ValueError as error:
        if str(error).startswith("recursion limit"):
            raise ProtocolError(f"a frame is nested more than {MAX_DEPTH} deep") from None
        raise ProtocolError(f"a frame is no JSON: {error}") from None
    if not isinstance(frame, dict):
        raise ProtocolError("a frame is no JSON object")
    _check_values(frame)
    return _guest_frame(frame, data, values)


def _guest_frame(frame: dict[str, Any], data: bytes, values: int) -> GuestFrame:
    """The typed frame of a parsed object; `values` is at least the number of values in `data`."""
    match frame.get("op"):
        case "call":
            arguments = _field(frame, "arguments", dict)
            is_raw = "raw" in frame and _field(frame, "raw", bool)
            memory = text_memory(data) + _VALUE_BYTES * values
            return Call(_id(frame), _name(frame, "server"), _name(frame, "tool"), arguments, len(data), memory, is_raw)
        case "read":
            arguments = _field(frame, "arguments", dict) if "arguments" in frame else {}
            names = _name(frame, "server"), _name(frame, "uri", MAX_URI)
            return Read(_id(frame), *names, arguments, len(data), text_memory(data) + _VALUE_BYTES * values)
        case "resources":
            return Resources(_id(frame), _name(frame, "server"))
        case "load":
            return Load(_id(frame), _name(frame, "module"))
        case "search":
            query, detail = _field(frame, "query", str)[:_MAX_TEXT], _name(frame, "detail_level")
            server, effect = _name_or_none(frame, "server"), _name_or_none(frame, "effect")
            return Search(_id(frame), query, detail, server, _field(frame, "limit", int), effect)
        case "show":
            claims = _name_or_none(frame, "mime_type"), _name_or_none(frame, "name")
            return Show(_id(frame), _bytes(frame, "data"), *claims)
        case "skill":
            return SavedSkill(_id(frame), _name(frame, "name"), _field(frame, "text", str))
        case "artifact":
            return Artifact(_id(frame), _name_or_none(frame, "name"))
        case "output":
            return Output(_one_of(frame, "stream", "stdout", "stderr"), _field(frame, "text", str))
        case "line":
            return Line(_field(frame, "line", int))
        case "exceeded":
            setting, value = _one_of(frame, "setting", *sorted(GUEST_LIMITS)), _name_or_none(frame, "value")
            return Exceeded(setting, line_of_program(_line(frame)), value or "")
        case "done":
            form = _one_of(frame, "value_form", "none", "json", "repr")
            raised = _error(frame.get("error"))
            return Done(_name(frame, "id"), frame.get("value"), form, raised, len(data), _hint(frame))
        case other:
            raise ProtocolError(f"a frame has the unknown op {str(other)[:50]!r}")


def longest_frame(limits: Limits) -> int:
    """Bytes that an honest guest's frame may have; a longer one is refused by its header."""
    return max(limits.max_value_bytes, 2**21) + _OVERHEAD


def _error(raw: Any) -> ProgramError | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise ProtocolError("'error' of a frame is no object")
    line = _line(raw)
    type_, message = _field(raw, "type", str)[:200], _field(raw, "message", str)[:_MAX_TEXT]
    return ProgramError(
        type_, message, _field(raw, "traceback", str)[:_MAX_TEXT], line_of_program(line), hint=_hint(raw)
    )


def _line(raw: dict[str, Any]) -> int | None:
    line = raw.get("line")
    if line is not None and (not isinstance(line, int) or isinstance(line, bool)):
        raise ProtocolError("'line' of a frame is no integer")
    return line


def line_of_program(number: int | None) -> int | None:
    """The number, if a line of a program can have it."""
    return number if number is not None and 1 <= number <= _MAX_LINE else None


def _hint(raw: dict[str, Any]) -> str:
    hint: str = _field(raw, "hint", str) if "hint" in raw else ""
    return hint[:_MAX_HINT]


def _bytes(frame: dict[str, Any], field: str) -> bytes:
    try:
        return base64.b64decode(_field(frame, field, str), validate=True)
    except ValueError:
        raise ProtocolError(f"{field!r} of a frame is no base64") from None


def _name_or_none(frame: dict[str, Any], field: str) -> str | None:
    return None if frame.get(field) is None else _name(frame, field)


def _id(frame: dict[str, Any]) -> int:
    found: int = _field(frame, "id", int)
    return found


def _name(frame: dict[str, Any], field: str, longest: int = _MAX_NAME) -> str:
    found: str = _field(frame, field, str)
    if len(found) > longest:
        raise ProtocolError(f"{field!r} of a frame is longer than {longest} characters")
    return found


def _one_of(frame: dict[str, Any], field: str, *allowed: str) -> Any:
    found = frame.get(field)
    if found not in allowed:
        raise ProtocolError(f"{field!r} of a frame is none of {', '.join(allowed)}")
    return found


def _field(frame: dict[str, Any], field: str, kind: type) -> Any:
    found = frame.get(field)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise ProtocolError(f"{field!r} of a frame is no {kind.__name__}")
    return found


def _check_values(frame: dict[str, Any]) -> None:
    level: list[Any] = [frame]
    for _ in range(MAX_DEPTH):
        found = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if any(isinstance(item, float) and not math.isfinite(item) for item in found):
            raise ProtocolError("a frame holds a number that is too large")
        level = [item for item in found if isinstance(item, (dict, list))]
        if not level:
            return
    raise ProtocolError(f"a frame is nested more than {MAX_DEPTH} deep")
