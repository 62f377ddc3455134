"""Converts a tool's raw result to the plain value a program gets, or raises `ToolFailed`. Pure.

In this order:

* `structuredContent`, of which a lone `{"result": x}` is `x`: SDKs wrap what is no object so. JSON in such an x is
  read, since tools that are declared to give a string often give that. Images and files that come with an object, and
  a text that is not the copy of an object or list, are `beside` it.
* the text: `text_values` says what of it is read as a value. A tool that gives lists (it declares one, or has sent a
  block for each item) gives one for no item and for a lone one, too. An embedded text that is all there is counts as
  one; it is read as JSON where it is said to be JSON, or nothing is said.
* a list of blocks when there is an image, a file, a link or anything else beside text. An embedded text is a file then:
  it has a URI and a type of its own. A text that is a JSON object or array is one in there too.

Base64 stays in a value as its program expects it; the file that it is stands beside the value as well
(`embedded_files`), so that the model is shown a summary in its place.

A whole result in the place of any of these (a server that passes on the answer of another one) is read in its place.

Blocks meant for a person (`annotations.audience`) stay in the result: the program decides what to show to whom. Whoever
needs the rest, `_meta` for instance, asks for the raw result.
"""

from __future__ import annotations

import base64
import binascii
import json
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

from pydantic_core import from_json

from codemode_server.domain.errors import ResultTooLarge, ToolFailed
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import ANY_FORM, ResultForm
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import MAX_VALUES, is_nested_deeper, values_in
from codemode_server.support.redaction import NO_SECRETS, Redactor
from codemode_server.upstreams.embedded_files import embedded_files
from codemode_server.upstreams.file_types import type_of_base64
from codemode_server.upstreams.messages import MAX_VALUE_DEPTH
from codemode_server.upstreams.repairs import MARKS, RESULT_FIELDS, blocks, envelope_in, says_error, text_of
from codemode_server.upstreams.text_values import are_too_much, as_list, parse_document, parse_text, parse_texts

ERROR_CHARACTERS = 2_000
"""An upstream's error text is cut after so many."""
CUT = "… (cut; the server's message goes on)"
"""Stands where it was cut."""
_MAX_ENVELOPES = 4
_MAX_PARTS = 50
"""Fields of the structured content of an error that are looked for in its text."""
_SHORT_CHARACTERS = 2**14
_SCALARS = frozenset({"integer", "number", "boolean", "null"})


def to_reply(result: Any, *, form: ResultForm = ANY_FORM, redactor: Redactor = NO_SECRETS) -> Reply:
    """The value in a `tools/call` result of a tool, of whose results `form` is known. The text of an error is masked by
    `redactor`, since it is cut. Raises `ToolFailed` if the result says that it is an error, or asks for something that
    is not there; `ResultTooLarge` if the value is nested too deep, or a list of too many values."""
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    reply = _to_reply(result, form, redactor) if isinstance(result, dict) else Reply(result)
    if reply.value is not structured:  # that was checked
        _check_depth(reply.value)
    return _with_embedded_files(reply)


def resource_reply(uri: str, result: Any, *, redactor: Redactor = NO_SECRETS) -> Reply:
    """The files in a `resources/read` result, as they came. Raises `ToolFailed`: there are none."""
    contents = result.get("contents") if isinstance(result, dict) else None
    parts = [it for it in contents if isinstance(it, dict)] if isinstance(contents, list) else []
    files = [file for file in (_to_file({"uri": uri, **part}) for part in parts) if file is not None]
    if not files:
        raise ToolFailed(f"the resource {redactor.head(uri, 200)!r} came without contents")
    return Reply(files, "blocks")


def failure_of(result: Any, redactor: Redactor = NO_SECRETS) -> str | None:
    """The error's text if a raw result says that it is one, masked by `redactor`."""
    if not isinstance(result, dict) or not says_error(result):
        return None
    return error_text(_error_of(result), redactor) or "the tool reported an error and did not say which"


def raw_reply(result: dict[str, Any]) -> Reply:
    """A result that is handed on as it came. Raises `ResultTooLarge`: it is nested too deep."""
    _check_depth(result)
    return Reply(result)


def _check_depth(value: JsonValue) -> None:
    if is_nested_deeper(value, MAX_VALUE_DEPTH):
        raise ResultTooLarge(f"the tool's result is nested more than {MAX_VALUE_DEPTH} deep; ask for a part of it")


def error_text(text: str, redactor: Redactor, most: int = ERROR_CHARACTERS) -> str:
    """An upstream's error text made fit to pass on: no secrets and no control characters, at most `most` of it."""
    text = redactor.visible(redactor.head(text, most * 4)).strip()
    return text if len(text) <= most else f"{text[:most].rstrip()}{CUT}"


def _to_reply(result: dict[str, Any], form: ResultForm, redactor: Redactor, depth: int = 0) -> Reply:
    is_marked = result.get("isError") or result.get("is_error")
    if is_marked and (failure := failure_of(result, redactor)) is not None:
        raise ToolFailed(failure)
    if result.get("resultType") == "input_required":
        raise ToolFailed("the tool asks for input from a person in the middle of a call, which is not supported yet")
    content = result.get("content")
    items = content if isinstance(content, list) else blocks(content) or []
    structured = result.get("structuredContent")
    if structured is not None and not (structured == {} and items):
        _check_depth(structured)  # before anything is compared with it
        value = structured
        if isinstance(structured, dict) and set(structured) == {"result"}:
            value = structured["result"]
            if isinstance(value, str):
                value = parse_document(value)
        # A schema may declare an object with `content`, as `read_media_file` of the reference server does.
        is_envelope = isinstance(value, dict) and value.keys() & MARKS
        inner = _within(value, form, redactor, depth) if is_envelope else None
        return inner or _beside(as_list(value, [], form) if form.is_list else value, items)
    if not items:
        rest = {key: value for key, value in result.items() if key not in RESULT_FIELDS}
        value = content if not isinstance(content, list) else None
        if content is None and rest:
            value = rest.get("toolResult", rest)
        return _within(value, form, redactor, depth) or Reply(as_list(value, [], form))
    texts = [text for text in map(text_of, items) if text is not None]
    if len(texts) == len(items):
        if are_too_much(texts) and all(text.lstrip()[:1] in ("{", "[") for text in texts):
            # As one text they would be no JSON, so a list would be another type from some length on.
            raise ResultTooLarge(f"the tool's result holds more than {MAX_VALUES:,} values; ask for less of it")
        value = parse_texts(texts, form.scalars)
        if inner := _within(value, form, redactor, depth):
            return inner
        value = as_list(value, texts, form)
        return Reply(value, is_block_list=isinstance(value, list) and len(texts) > 1)
    document = _document_of(items[0]) if len(items) == 1 else None
    if document is not None:
        return Reply(*document)
    return Reply([_to_block(item, reads=not are_too_much(texts)) for item in items], "blocks")


def _within(value: Any, form: ResultForm, redactor: Redactor, depth: int) -> Reply | None:
    """The reply in a value that is a whole result; None for any other."""
    inner = envelope_in(value) if depth < _MAX_ENVELOPES else None
    return _to_reply(inner, form, redactor, depth + 1) if inner else None


def _beside(value: Any, items: list[Any]) -> Reply:
    """A structured value with the files and the text that came with it."""
    files, texts = list[dict[str, Any]](), list[str]()
    for item in items:
        if (text := text_of(item)) is not None:
            texts.append(text)
        elif (block := _to_block(item))["type"] == "file":
            files.append(block)
    if not isinstance(value, dict) and files:
        return Reply([{"type": "json", "value": value}, *files], "blocks")
    beside: dict[str, Any] = {"files": files} if files else {}
    if texts and any(map(str.strip, texts)) and not _says_all(value, texts):
        beside["text"] = "\n".join(texts)
    return Reply([{"type": "json", "value": value, "beside": beside}], "blocks") if beside else Reply(value)


def _with_embedded_files(reply: Reply) -> Reply:
    """The same with the files that stand within its values as base64 named beside these."""
    if reply.encoding == "json":
        files = embedded_files(reply.value)
        shown = [{"type": "json", "value": reply.value, "beside": {"files": files}}]
        return replace(reply, value=shown, encoding="blocks") if files else reply
    for block in reply.value:
        if block["type"] == "json" and (embedded := embedded_files(block["value"])):
            beside = block.setdefault("beside", {})
            beside["files"] = _merged(block["value"], beside.get("files", []), embedded)
    return reply


def _merged(value: JsonValue, files: list[dict[str, Any]], embedded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files that came beside a value and those within it; one that is both is sent to the program once."""
    places = {reduce(getitem, file["at"], value): file["at"] for file in reversed(embedded)}
    both = [places.get(file.get("data", "")) for file in files]
    same = [
        {key: item for key, item in file.items() if key != "data"} | {"at": place} if place is not None else file
        for file, place in zip(files, both, strict=True)
    ]
    return [*same, *(file for file in embedded if file["at"] not in both)]


def _says_all(value: JsonValue, texts: list[str]) -> bool:
    """True if the texts add nothing to the value: they are it, or a value within it, as JSON or as a string."""
    if len(texts) == 1 and len(texts[0]) <= _SHORT_CHARACTERS:  # the usual copy that SDKs send
        with suppress(ValueError):
            if from_json(texts[0]) == value:
                return True
    read, said = parse_texts(texts, _SCALARS), "\n".join(texts).strip()
    is_part = (it.strip() == said if isinstance(it, str) else _is_same(it, read) for it in values_in(value))
    return read == {"result": value} or value in ([read], texts) or any(is_part)


def _is_same(value: JsonValue, other: JsonValue) -> bool:
    """Equal, where `true` is not 1."""
    return type(value) is type(other) and value == other


def _document_of(item: Any) -> tuple[JsonValue] | None:
    resource = item.get("resource") if isinstance(item, dict) and item.get("type") == "resource" else None
    if not isinstance(resource, dict) or not isinstance(resource.get("text"), str):
        return None
    text, kind = resource["text"], (_text_or_none(resource.get("mimeType")) or "").partition(";")[0].strip().lower()
    if not kind:
        return (parse_text(text),)
    return (parse_document(text) if kind.endswith(("/json", "+json")) else text,)


def _to_block(item: Any, *, reads: bool = True) -> dict[str, Any]:
    """A content block as `Reply` has them; one that no rule knows as the JSON it is. `reads` texts that are JSON."""
    unknown = {"type": "json", "value": item}
    text = text_of(item)
    if text is not None:
        value = parse_document(text) if reads else text
        return {"type": "text", "text": text} if value is text else {"type": "json", "value": value}
    if not isinstance(item, dict):
        return unknown
    kind, resource = item.get("type"), item.get("resource")
    if kind in ("image", "audio") and isinstance(item.get("data"), str):
        file = _file(item) | {"data": _base64(item["data"])}
        return file | {"mime_type": file["mime_type"] or type_of_base64(file["data"]) or "application/octet-stream"}
    if kind == "resource" and isinstance(resource, dict):
        return _to_file(resource) or unknown
    if kind == "resource_link" and isinstance(item.get("uri"), str):
        size, said = item.get("size"), _text_or_none(item.get("description")) or _text_or_none(item.get("title"))
        return _file(item) | {
            **({"size": size} if isinstance(size, int) and size >= 0 else {}),
            **({"description": said} if said else {}),
        }
    return unknown


def _to_file(contents: dict[str, Any]) -> dict[str, Any] | None:
    if isinstance(contents.get("text"), str):
        return _file(contents) | {"text": contents["text"]}
    if isinstance(contents.get("blob"), str):
        return _file(contents) | {"data": _base64(contents["blob"])}
    return None


def _base64(data: str) -> str:
    data = data.partition(",")[2] if data.startswith("data:") else data
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):  # not what it says it is: its text, then
        return base64.b64encode(data.encode("utf-8", "replace")).decode()
    return data


def _file(fields: dict[str, Any]) -> dict[str, Any]:
    uri = _text_or_none(fields.get("uri"))
    name = _text_or_none(fields.get("name")) or ((uri or "").rstrip("/").rpartition("/")[2] or None)
    return {"type": "file", "mime_type": _text_or_none(fields.get("mimeType")), "name": name, "uri": uri}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _error_of(result: dict[str, Any]) -> str:
    content, structured = result.get("content"), result.get("structuredContent")
    texts = [text for text in map(_to_said, blocks(content) or ()) if text]
    if texts:
        parsed, text = parse_texts(texts), "\n".join(texts)
        if inner := envelope_in(parsed):
            return _error_of(inner)
        parts = list(structured.values())[:_MAX_PARTS] if isinstance(structured, dict) else [structured]
        if structured in (None, parsed) or all(str(it) in text[:ERROR_CHARACTERS] for it in parts):
            return text
        return f"{text}\n{_said(structured)}"
    rest = {name: value for name, value in result.items() if name not in RESULT_FIELDS}
    said = structured or content or (next(iter(rest.values())) if len(rest) == 1 else rest) or ""
    if isinstance(said, dict) and said.keys() <= {"code", "message"} and isinstance(said.get("message"), str):
        said = said["message"]
    return _said(said)


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _to_said(item: Any) -> str | None:
    resource = item.get("resource") if isinstance(item, dict) else None
    return text_of(item) or (_text_or_none(resource.get("text")) if isinstance(resource, dict) else None)
