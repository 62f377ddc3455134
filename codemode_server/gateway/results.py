"""The summary of a result for reports, records and traces, and the links in it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from codemode_server.domain.ids import JsonValue
from codemode_server.gateway import summaries
from codemode_server.gateway.targets import CallTarget
from codemode_server.redaction import Payloads, Redactor, payload
from codemode_server.sandbox.contract import Reply
from codemode_server.sandbox.frames import holds_long_text, json_pieces
from codemode_server.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """What is reported and recorded of a result."""

    bytes: int = 0
    """As JSON."""
    tokens: int = 0
    """What it would have cost the model, estimated."""
    text: str = ""
    """In a few words, for the model."""
    payload: str | None = None
    """What `state.payloads` lets records and traces hold of it."""
    marked_error: str | None = None
    """See `ToolTarget.marked_error`, and `ToolTarget.unmarked_error`."""
    unmarked_error: str | None = None


NO_RESULT = ResultSummary()


def summarise(target: CallTarget, reply: Reply, payloads: Payloads, redactor: Redactor) -> ResultSummary:
    """The summary of a reply without secrets."""
    size, tokens = _size_of(reply.value)
    return ResultSummary(
        size,
        tokens,
        summaries.of_reply(reply, redactor),
        payload(reply.value, payloads, redactor),
        target.marked_error(reply.value),
        target.unmarked_error(reply, redactor),
    )


def linked_uris(reply: Reply) -> list[str]:
    """The URIs of the links and embedded resources in a reply, in order."""
    if reply.encoding != "blocks":
        return []
    files = [file for block in reply.value for file in (block, *block.get("beside", {}).get("files", ()))]
    return [file["uri"] for file in files if file["type"] == "file" and isinstance(file["uri"], str)]


def _size_of(value: JsonValue) -> tuple[int, int]:
    """The bytes of a value as JSON, and its tokens; of long texts without a copy of all of it."""
    if holds_long_text([value]):
        sizes = [(len(piece), estimate_tokens(piece.decode())) for piece in json_pieces(value)]
        return sum(size for size, _ in sizes), sum(tokens for _, tokens in sizes)
    text = json.dumps(value, ensure_ascii=False)
    size = sum(len(text[at : at + 2**20].encode("utf-8", "surrogatepass")) for at in range(0, len(text), 2**20))
    return size, estimate_tokens(text)
