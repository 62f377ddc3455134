"""Turns a program's answer into MCP content, with a block for each shown file, and stored results into resources."""

from __future__ import annotations

import base64
from dataclasses import replace

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)

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
    blocks = []
    room = MAX_BYTES - size
    links = 0
    for file in execution.shown:
        block, taken = _block_of(file, room)
        room -= taken
        links += isinstance(block, ResourceLink)
        if block is not None and links <= _MAX_LINKS:
            blocks.append(block)
    return replace(made, blocks=blocks)


def _block_of(file: ShownFile, room: int) -> tuple[ContentBlock | None, int]:
    """A shown file as a block, and its size; as a link where it has more than `room` bytes or exceeds the budget."""
    data = file.data.decode() if file.kind == "text" else base64.b64encode(file.data).decode()
    uri = f"{SCHEME}{file.artifact}" if file.artifact else f"file:///{file.name or file.number}"
    if not file.is_within_budget or len(data) > room:
        if not file.artifact:
            return None, 0
        name = file.name or f"file {file.number}"
        return ResourceLink(type="resource_link", uri=uri, name=name, mime_type=file.mime_type, size=file.size), 300
    match file.kind:
        case "image":
            return ImageContent(type="image", data=data, mime_type=file.mime_type), len(data)
        case "audio":
            return AudioContent(type="audio", data=data, mime_type=file.mime_type), len(data)
        case "text":
            text = TextResourceContents(uri=uri, mime_type=file.mime_type, text=data)
            return EmbeddedResource(type="resource", resource=text), len(data)
        case "blob":
            blob = BlobResourceContents(uri=uri, mime_type=file.mime_type, blob=data)
            return EmbeddedResource(type="resource", resource=blob), len(data)


def contents_of(item: Item, data: bytes, redactor: Redactor) -> ReadResourceContents:
    """A stored result as the answer to `resources/read`; text is cleaned and redacted, since a model may read it."""
    if item.kind == "file" and not item.mime_type.startswith("text/"):
        return ReadResourceContents(content=data, mime_type=item.mime_type)
    text = redactor.visible(data.decode("utf-8", "replace"))
    return ReadResourceContents(content=text, mime_type=item.mime_type)
