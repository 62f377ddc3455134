"""Turns a program's answer into MCP content, with a block for each shown file, and stored results into resources."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from codemode_server.config.settings import LimitSettings
from codemode_server.executions.artifacts import Item
from codemode_server.executions.attachments import ShownFile
from codemode_server.executions.execution import Execution
from codemode_server.mcp_server.rendering import SCHEME, render
from codemode_server.mcp_server.tools.registry import Answer
from codemode_server.support.json_values import size_as_json
from codemode_server.support.redaction import Redactor

MAX_BYTES = 950_000
"""Size of a whole result as it is sent: hosts accept 1 MB."""
_ROOM_FOR_THE_REST = 10_000
_HALVINGS = 8
_MAX_LINKS = 8


def program_answer(execution: Execution, limits: LimitSettings, redactor: Redactor) -> Answer:
    """A settled execution as a result of the protocol, never larger than hosts take."""
    for _ in range(_HALVINGS):
        made = render(execution, limits, redactor)
        size = size_as_json(made.text) + size_as_json(made.content) + _ROOM_FOR_THE_REST
        if size <= MAX_BYTES:
            break
        limits = limits.model_copy(update={"output_tokens": max(100, limits.output_tokens // 2)})
    blocks = list[dict[str, Any]]()
    room, links = MAX_BYTES - size, 0
    for file in execution.shown:
        block, taken = _block_of(file, room)
        room -= taken
        links += block is not None and block["type"] == "resource_link"
        if block is not None and links <= _MAX_LINKS:
            blocks.append(block)
    return replace(made, blocks=blocks)


def _block_of(file: ShownFile, room: int) -> tuple[dict[str, Any] | None, int]:
    """A shown file as a block, and its size; as a link where it has more than `room` bytes or exceeds the budget."""
    data = file.data.decode() if file.kind == "text" else base64.b64encode(file.data).decode()
    uri = f"{SCHEME}{file.artifact}" if file.artifact else f"file:///{file.name or file.number}"
    if not file.is_within_budget or len(data) > room:
        if not file.artifact:
            return None, 0
        name = file.name or f"file {file.number}"
        link = {"type": "resource_link", "uri": uri, "name": name, "mimeType": file.mime_type, "size": file.size}
        return link, 300
    if file.kind in ("image", "audio"):
        return {"type": file.kind, "data": data, "mimeType": file.mime_type}, len(data)
    field = "text" if file.kind == "text" else "blob"
    return {"type": "resource", "resource": {"uri": uri, "mimeType": file.mime_type, field: data}}, len(data)


def resource(uri: str, item: Item, data: bytes, redactor: Redactor) -> dict[str, Any]:
    """A stored result as the answer to `resources/read`; text is cleaned and redacted, since a model may read it."""
    about = {"uri": uri, "mimeType": item.mime_type}
    if item.kind == "file" and not item.mime_type.startswith("text/"):
        return about | {"blob": base64.b64encode(data).decode()}
    return about | {"text": redactor.visible(data.decode("utf-8", "replace"))}
