"""Reads the data of servers that break the protocol, before pydantic sees it: handshakes, listings, schemas, results.

One principle: only the data that we need are required. A value of the wrong type is read as the value that it plainly
stands for (PHP writes `[]` for an empty object, others `"true"`, `OBJECT` or a JSON text in a text), or ignored. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.schema_dialects import LISTS, MAPS, SCHEMAS, TYPES, by_name, is_misplaced
from codemode_server.domain.ids import JsonSchema

_OF_ONE = SCHEMAS | {"if", "not", "unevaluatedItems", "unevaluatedProperties"}
RESULT_FIELDS = frozenset({"_meta", "content", "isError", "is_error", "resultType", "structuredContent"})
MARKS = frozenset({"isError", "is_error", "jsonrpc", "structuredContent"})
"""Fields that data with `content` of their own have not."""
_ANSWER = frozenset({"error", "id", "jsonrpc", "result"})
_MAX_INSTRUCTIONS_CHARACTERS = 100_000
_BLOCKS = frozenset({"audio", "image", "resource", "resource_link", "text"})


def as_object(value: Any) -> dict[str, Any]:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    """The text, also of a number, of an object with a `text` and of a list of texts; None for anything else."""
    if isinstance(value, dict):
        value = value.get("text")
    if isinstance(value, list):
        return "\n".join(part for part in value if isinstance(part, str)) or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def as_flag(value: Any) -> bool | None:
    """True or False, also as a text or as 1 or 0; None for anything else."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a server says of itself before the first request."""

    version: str | None = None
    """The protocol version that it takes, of those with a handshake."""
    offered: tuple[str, ...] = ()
    """Those that it offers in the answer to the probe."""
    capabilities: frozenset[str] = frozenset()
    server_version: str | None = None
    description: str | None = None
    instructions: str | None = None


def read_handshake(result: dict[str, Any]) -> Handshake:
    """The result of `initialize` or `server/discover`."""
    from mcp_types import SERVER_INFO_META_KEY
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS as VERSIONS

    said, declared, offered = result.get("protocolVersion"), result.get("capabilities"), result.get("supportedVersions")
    said = as_text(said)
    if said is not None and said.isdigit() and len(said) == 8:  # 20250618
        said = f"{said[:4]}-{said[4:6]}-{said[6:]}"
    if isinstance(declared, list):  # of names
        declared = {name: {} for name in declared if isinstance(name, str)}
    capabilities = {
        it for it, value in as_object(declared).items() if value is not None and as_flag(value) is not False
    }
    info = as_object(result.get("serverInfo")) or as_object(as_object(result.get("_meta")).get(SERVER_INFO_META_KEY))
    instructions = as_text(result.get("instructions"))
    return Handshake(
        # A server that names no version takes the one that was offered; one of a draft takes the last one before it.
        version=VERSIONS[-1] if said is None else max((it for it in VERSIONS if it <= said), default=VERSIONS[0]),
        offered=tuple(it for it in offered if isinstance(it, str)) if isinstance(offered, list) else (),
        capabilities=frozenset(capabilities),
        server_version=as_text(info.get("version")),
        description=as_text(info.get("description")),
        instructions=instructions[:_MAX_INSTRUCTIONS_CHARACTERS] if instructions is not None else None,
    )


def entries(listed: Any) -> list[Any] | None:
    """The entries of a listing, also those of an object by their names; None for anything else."""
    if isinstance(listed, str):
        try:
            listed = json.loads(listed)
        except (ValueError, RecursionError):
            return None
    if isinstance(listed, dict):
        return [{"name": name, **entry} if isinstance(entry, dict) else entry for name, entry in listed.items()]
    return [] if listed is None else listed if isinstance(listed, list) else None


def input_schema(written: Any) -> JsonSchema | str:
    """A tool's input schema as the schema of an object, or its type if it is another."""
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except (ValueError, RecursionError):
            return "text"
    written = as_object(written)
    if written and not written.keys() & MAPS and all(isinstance(it, dict) and "type" in it for it in written.values()):
        written = {"properties": written}  # only the map of properties
    read = schema(written)
    kinds = read.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    if kinds and "object" not in kinds:
        return str(kinds[0])
    return {**read, "type": "object"}


def schema(written: Any) -> Any:
    """A JSON Schema with its types in the words of JSON Schema and with an object wherever one belongs."""
    if isinstance(written, str) and written.lower() in TYPES:
        return {"type": TYPES[written.lower()]}
    if not isinstance(written, dict):
        return written if isinstance(written, bool) else {}
    read = dict(written)
    for key, value in written.items():
        if key in MAPS:
            parts = as_object(by_name(value))
            read[key] = {name: one if is_misplaced(name, one) else schema(one) for name, one in parts.items()}
        elif key in _OF_ONE:
            read[key] = schema(value) if not (key == "items" and isinstance(value, list) and value) else value
        elif key in LISTS and isinstance(value, list):
            read[key] = [schema(one) for one in value]
        elif key == "type" and isinstance(value, str):
            read[key] = TYPES.get(value.lower(), value)
        elif key == "type" and isinstance(value, list):
            read[key] = [TYPES.get(kind.lower(), kind) if isinstance(kind, str) else kind for kind in value]
    return read


def blocks(content: Any) -> list[Any] | None:
    """The blocks of a result, also a lone one; None if `content` is none."""
    if isinstance(content, list):
        return content
    is_block = isinstance(content, str) or (isinstance(content, dict) and content.get("type") in _BLOCKS)
    return [content] if is_block else None


def text_of(block: Any) -> str | None:
    """The text of a content block, also of one that is only its text, or has no type; None for another block."""
    if not isinstance(block, dict):
        return block if isinstance(block, str) else None
    text, kind = block.get("text"), block.get("type")
    if (isinstance(kind, str) and kind.lower() == "text") or (kind is None and isinstance(text, str)):
        return text if isinstance(text, str) else "" if text is None else json.dumps(text, ensure_ascii=False)
    return None


def says_error(result: dict[str, Any]) -> bool:
    """True if a result says that it is an error."""
    return bool(as_flag(result.get("isError", result.get("is_error"))))


def envelope_in(value: Any) -> dict[str, Any] | None:
    """The whole result of `tools/call` in a value, as servers pass on that of another one: as it is, under `result` or
    `content`, in a JSON-RPC answer, or only its blocks. None for anything else."""
    if isinstance(value, list):
        return {"content": value} if value and _are_blocks(value) else None
    if not isinstance(value, dict):
        return None
    if value.keys() <= _ANSWER and (len(value) == 1 or "jsonrpc" in value):
        if value.get("error") and "jsonrpc" in value:
            return {"isError": True, "error": value["error"]}
        return envelope_in(as_object(value.get("result")))
    content, is_marked = value.get("content"), bool(value.keys() & MARKS)
    if says_error(value) and value.keys() <= RESULT_FIELDS | {"error", "message"}:
        return value
    if "content" not in value or not value.keys() <= RESULT_FIELDS:
        return None
    if isinstance(content, dict) and len(value) == 1:
        return envelope_in(content)
    is_content = isinstance(content, str) or (isinstance(content, list) and _are_blocks(content))
    return value if is_content and (is_marked or (content and isinstance(content, list))) else None


def _are_blocks(content: list[Any]) -> bool:
    return all(isinstance(it, dict) and it.get("type") in _BLOCKS for it in content)
