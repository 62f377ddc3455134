"""The summary of a result for reports, records and traces, and the links in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from codemode_server.calls import summaries
from codemode_server.calls.targets import CallTarget, ToolTarget
from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import json_bytes
from codemode_server.support.redaction import Payloads, Redactor, payload
from codemode_server.support.tokens import estimate_tokens
from codemode_server.upstreams.results import failure_of
from codemode_server.upstreams.unmarked_errors import unmarked_error


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """A result as it is reported and recorded."""

    bytes: int = 0
    """As JSON."""
    memory_bytes: int = 0
    """Estimated memory of the value as Python objects, rather too much than too little."""
    tokens: int = 0
    """Estimated tokens that it would have cost the model."""
    text: str = ""
    """A short description for the model."""
    payload: str | None = None
    """The value as `state.payloads` allows in records and traces."""
    marked_error: str | None = None
    """The error that a raw result is marked as; the program gets the result all the same."""
    unmarked_error: str | None = None
    """The error that a normal result consists of."""


NO_RESULT = ResultSummary()
MAX_LINKS = 10_000
"""Links that an execution may read."""
_VALUE_BYTES = 64
"""Memory of a small value or key as a Python object, with its place in a dict or list."""


def summarise(target: CallTarget, reply: Reply, payloads: Payloads, redactor: Redactor) -> ResultSummary:
    """The summary of a reply without secrets."""
    return ResultSummary(
        *sizes_of(reply.value),
        summaries.of_reply(reply, redactor),
        payload(reply.value, payloads, redactor),
        *_errors_in(target, reply, redactor),
    )


def _errors_in(target: CallTarget, reply: Reply, redactor: Redactor) -> tuple[str | None, str | None]:
    if not isinstance(target, ToolTarget):
        return None, None
    if target.is_raw:
        return failure_of(reply.value), None
    return None, unmarked_error(reply.value, redactor) if reply.encoding == "json" else None


def linked_uris(reply: Reply) -> list[str]:
    """The URIs of the links and embedded resources in a reply, in order."""
    if reply.encoding != "blocks":
        return []
    files = [file for block in reply.value for file in (block, *block.get("beside", {}).get("files", ()))]
    return [file["uri"] for file in files if file["type"] == "file" and isinstance(file["uri"], str)]


def sizes_of(value: JsonValue) -> tuple[int, int, int]:
    """The bytes of a value as JSON and in memory, and its tokens."""
    data = json_bytes(value)
    text = data.decode()
    values = sum(map(text.count, ",:[{"))  # at least one for each value and key
    size = len(text) * (1 if text.isascii() else 4) + values * _VALUE_BYTES
    return len(data), size, estimate_tokens(text)
