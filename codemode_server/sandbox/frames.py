"""The protocol between host and guest, the same for every backend: the frames of both and their limits.

A frame (see `processes.stream_readers`) is UTF-8 JSON, an object with `op`.

    host → guest   run {code, limits, modules, repeat}         modules: answers to `load` that it need not ask for
                                                               repeat {key}: of its randomness
                   reply {id, ok: true, value, encoding}       encoding: json | blocks
                   reply {id, ok: false, kind, message}        kind: an error's code, e.g. unknown_tool
    guest → host   call {id, server, tool, arguments, raw, forms}  answered by a reply; raw and forms may be missing
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
                   done {value, value_form, error, hint}       the last frame

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
import hashlib
import math
import re
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from codemode_server.domain.ids import JsonValue
from codemode_server.processes.stream_readers import FramingError, framed
from codemode_server.sandbox.contract import HostApi, Limits, Program, Reply
from codemode_server.support.json_values import (
    MAX_VALUES,
    holds_too_many_values,
    is_nested_deeper,
    json_bytes,
    read_json,
    values_at_most,
    values_in,
)
from codemode_server.support.off_loop import LARGE_BYTES

MAX_DEPTH = 128
"""Maximum nesting of a guest's frame; deeper values could break code that handles them later."""
_OVERHEAD = 64 * 2**10
"""Bytes that a frame needs beside its payload."""
MAX_URI = 8_192
"""Characters of a resource's URI."""
_MAX_LINE = 10**7
"""Largest line number; no program has so many lines."""
_MAX_PROBLEM = 200
_VALUE_BYTES = 64
"""Memory of a small value, with its place in a list."""
_LARGE_NUMBER = re.compile(rb"[eE]\+?\d{3}|(?<!\d)\d{200}")
"""What every number has that is too large for a float; texts may have it, too."""


def _cut(size: int) -> AfterValidator:
    return AfterValidator(lambda text: text[:size])


def _from_base64(data: object) -> bytes:
    if not isinstance(data, str):
        raise ValueError("no base64")  # noqa: TRY004 - pydantic's
    return base64.b64decode(data, validate=True)


Name = Annotated[str, Field(max_length=500)]
Text = Annotated[str, _cut(20_000)]
Hint = Annotated[str, _cut(1_000)]
LineNumber = Annotated[int | None, AfterValidator(lambda line: line if line and 1 <= line <= _MAX_LINE else None)]
"""None if no line of a program can have it."""


class ProtocolError(FramingError):
    """Raised when a guest sends what no honest guest sends."""


class TooManyValues(Exception):
    """Raised when a frame holds more values than may be parsed."""


class _Frame(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Request(_Frame):
    """The program asks for something; `ask` gets the answer."""

    id: int

    @property
    def title(self) -> str:
        """Describes a call; empty for other requests."""
        return ""

    def ask(self, host_api: HostApi) -> Awaitable[Reply]:
        raise NotImplementedError


class HostCall(Request):
    server: Name
    arguments: dict[str, Any]
    size: int
    memory: int
    """Bytes of memory that it takes at most."""


class TextForms(_Frame):
    """The other forms of one text in the arguments, as in `contract.ArgumentForms`."""

    at: list[str | int]
    forms: dict[str, Any]


class Call(HostCall):
    op: Literal["call"]
    tool: Name
    raw: bool = False
    forms: list[TextForms] = Field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.server}.{self.tool}"

    def ask(self, host_api: HostApi) -> Awaitable[Reply]:
        forms = [(tuple(it.at), it.forms) for it in self.forms] if self.forms else ()
        return host_api.call(self.server, self.tool, self.arguments, raw=self.raw, forms=forms)


class Read(HostCall):
    op: Literal["read"]
    uri: Annotated[str, Field(max_length=MAX_URI)]
    arguments: dict[str, Any] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"reading {self.uri[:500]!r}"

    def ask(self, host_api: HostApi) -> Awaitable[Reply]:
        return host_api.read(self.server, self.uri, self.arguments)


class Resources(Request):
    op: Literal["resources"]
    server: Name

    async def ask(self, host_api: HostApi) -> Reply:
        return Reply(await host_api.resources(self.server))


class Load(Request):
    op: Literal["load"]
    module: Name

    async def ask(self, host_api: HostApi) -> Reply:
        return Reply(await host_api.load(self.module))


class Search(Request):
    op: Literal["search"]
    query: Text
    detail_level: Name
    server: Name | None = None
    limit: int
    effect: Name | None = None

    async def ask(self, host_api: HostApi) -> Reply:
        return Reply(await host_api.search(self.query, self.detail_level, self.server, self.limit, self.effect))


class Show(Request):
    op: Literal["show"]
    data: Annotated[bytes, BeforeValidator(_from_base64)]
    mime_type: Name | None = None
    name: Name | None = None

    async def ask(self, host_api: HostApi) -> Reply:
        return Reply(await host_api.show(self.data, self.mime_type, self.name))


class SavedSkill(Request):
    op: Literal["skill"]
    name: Name
    text: str

    async def ask(self, host_api: HostApi) -> Reply:
        return Reply(await host_api.save_skill(self.name, self.text))


class Artifact(Request):
    op: Literal["artifact"]
    name: Name | None = None

    def ask(self, host_api: HostApi) -> Awaitable[Reply]:
        return host_api.artifact(self.name)


class Output(_Frame):
    op: Literal["output"]
    stream: Literal["stdout", "stderr"]
    text: str


class Line(_Frame):
    op: Literal["line"]
    line: LineNumber


class Exceeded(_Frame):
    op: Literal["exceeded"]
    setting: Literal["limits.call_bytes", "limits.value_bytes"]
    line: LineNumber = None
    value: Name | None = None


class Raised(_Frame):
    type: Annotated[str, _cut(200)]
    message: Text
    traceback: Text
    line: LineNumber = None
    hint: Hint = ""


class Done(_Frame):
    op: Literal["done"]
    value: Any = None
    value_form: Literal["none", "json", "repr"]
    error: Raised | None = None
    hint: Hint = ""
    size: int


GuestFrame = Call | Read | Resources | Load | Search | Show | SavedSkill | Artifact | Output | Line | Exceeded | Done
_GUEST_FRAME: TypeAdapter[GuestFrame] = TypeAdapter(Annotated[GuestFrame, Field(discriminator="op")])


def parse(data: bytes) -> GuestFrame:
    """Parse one frame of a guest. Raises `ProtocolError` if it is not valid; `TooManyValues` if it was not parsed,
    since it holds too many values."""
    if len(data) > MAX_VALUES and holds_too_many_values(data):
        raise TooManyValues
    try:
        frame = read_json(data)
    except ValueError as error:
        if str(error).startswith("recursion limit"):
            raise ProtocolError(f"a frame is nested more than {MAX_DEPTH} deep") from None
        raise ProtocolError(f"a frame is no JSON: {error}") from None
    if not isinstance(frame, dict):
        raise ProtocolError("a frame is no JSON object")
    may_hold_numbers = frame.get("op") not in ("output", "line")  # what a program prints comes in many frames
    is_deep = len(data) > LARGE_BYTES or data.count(b"[") + data.count(b"{") > MAX_DEPTH
    if is_deep or (may_hold_numbers and _LARGE_NUMBER.search(data)):
        _check_values(frame)
    frame["size"] = len(data)
    if frame.get("op") in ("call", "read"):
        frame["memory"] = memory_of(data) if len(data) > LARGE_BYTES else len(data)
    try:
        return _GUEST_FRAME.validate_python(frame)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        words = " ".join(map(str, (*problem["loc"], problem["msg"])))
        raise ProtocolError(f"a frame is wrong: {words}"[:_MAX_PROBLEM]) from None


def memory_of(data: bytes) -> int:
    """Memory that a frame takes at most once it is parsed: the widest character of a text sets what each of it takes.
    A value of three bytes, as `{},`, takes twenty times as much."""
    width = 1 if data.isascii() and b"\\u" not in data else 4
    return len(data) * width + _VALUE_BYTES * values_at_most(data)


def longest_frame(limits: Limits) -> int:
    """Bytes that an honest guest's frame may have; a longer one is refused by its header."""
    return max(limits.max_value_bytes, 2**21) + _OVERHEAD


def _check_values(frame: dict[str, Any]) -> None:
    if is_nested_deeper(frame, MAX_DEPTH):
        raise ProtocolError(f"a frame is nested more than {MAX_DEPTH} deep")
    if any(isinstance(value, float) and not math.isfinite(value) for value in values_in(frame)):
        raise ProtocolError("a frame holds a number that is too large")


def run_frame(program: Program) -> bytes:
    """The first frame to a guest."""
    limits = program.limits
    passed_on = {
        "call_bytes": limits.call_bytes,
        "calls_in_flight": limits.calls_in_flight,
        "value_bytes": limits.max_value_bytes,
    }
    # A program could find its key in its interpreter's memory, but never the seed.
    key = hashlib.blake2b(program.repeat.seed, digest_size=32, person=b"codemode guest").hexdigest()
    frame = {"op": "run", "execution_id": program.execution_id, "code": program.code}
    return encode({**frame, "limits": passed_on, "modules": program.modules, "repeat": {"key": key}})


def reply_frame(request_id: int, value: JsonValue, encoding: str) -> bytes:
    """A reply. Raises `RecursionError` if the value is nested too deep."""
    return encode({"op": "reply", "id": request_id, "ok": True, "encoding": encoding, "value": value})


def refusal_frame(request_id: int, kind: str, message: str) -> bytes:
    return encode({"op": "reply", "id": request_id, "ok": False, "kind": kind, "message": message})


def encode(frame: dict[str, Any]) -> bytes:
    return framed(json_bytes(frame))
