"""A tool's raw result → the plain value a program gets, or `ToolFailed`. Pure, and never surprised.

In this order: `structuredContent` (a lone `{"result": x}` is `x`: SDKs wrap what is no object so); one text; several
texts; a list of blocks when there is an image, a file or anything else beside text.

A text is read as JSON if it is an object or array, as Python if it is a list, tuple, set or dict as `repr` writes it
(database servers answer so), as `true`, `false` or `null`, and as a number only if writing that number gives the same
text again: `8` and `-1.5` are numbers, `00123`, `1.10`, `1e5` and `+49` stay the texts they are. A quoted `"text"`
keeps its quotes: whether they belong to it can't be told.

Several texts become a list if each one is JSON or a number by these rules (SDKs send a list as a block for each item),
else they are joined by newlines.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
from typing import Any

from codemode_server.errors import ToolFailed
from codemode_server.model import JsonValue
from codemode_server.sandbox.backend import Reply
from codemode_server.text import clean
from codemode_server.upstream._messages import without_surrogates

ERROR_CHARACTERS = 2_000
"""An upstream's error text is cut after so many."""
_REPR_CHARACTERS = 256 * 1024
"""Longest text given to `ast`, which takes some 100 times the text in memory."""
_REPR_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<word>None|True|False)\b"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<trailing_comma>,(?=\s*[\])}]))|(?P<mark>[\[\](){}:,]|\s+)"""
)
_AS_JSON = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_WORDS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}
_NO_VALUE = object()
MAX_DEPTH = 200
"""Nesting of a value; deeper is not data, and could break those who handle it later."""
_PROTOCOL_FIELDS = frozenset({"_meta", "isError", "resultType", "content", "structuredContent"})


def to_reply(result: Any) -> Reply:
    """The value in a `tools/call` result.

    Raises:
        ToolFailed: the result says that it is an error, or asks for something that is not there.
    """
    reply = _to_reply(result)
    if _is_nested_deeper(reply.value, MAX_DEPTH):
        raise ToolFailed(f"the tool's result is nested more than {MAX_DEPTH} deep")
    return reply


def _to_reply(result: Any) -> Reply:
    if not isinstance(result, dict):
        return Reply(result)
    if result.get("isError") is True:
        raise ToolFailed(error_text(_error_of(result)) or "the tool reported an error and did not say which")
    if result.get("resultType") == "input_required":
        raise ToolFailed("the tool asks for input from a person in the middle of a call, which is not supported yet")
    content = result.get("content")
    blocks = [_to_block(item) for item in content] if isinstance(content, list) else []
    structured = result.get("structuredContent")
    if structured is not None:
        value = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
        others = [block for block in blocks if block["type"] == "file"]
        return Reply([{"type": "json", "value": value}, *others], "blocks") if others else Reply(value)
    if not blocks:
        rest = {key: value for key, value in result.items() if key not in _PROTOCOL_FIELDS}
        return Reply(rest.get("toolResult", rest) if rest and not isinstance(content, list) else None)
    if any(block["type"] != "text" for block in blocks):
        return Reply(blocks, "blocks")
    return Reply(_value_of_texts([block["text"] for block in blocks]))


def error_text(text: str) -> str:
    """An upstream's error text made fit to pass on: no control characters, at most `ERROR_CHARACTERS` of it."""
    text = clean(text[: ERROR_CHARACTERS * 4]).strip()
    if len(text) <= ERROR_CHARACTERS:
        return text
    return f"{text[:ERROR_CHARACTERS].rstrip()}… (cut; the server's message goes on)"


def parse_text(text: str) -> JsonValue:
    """The value that `text` plainly is, by the rules in the module's docstring, else `text` itself."""
    value = _parsed(text)
    return text if value is _NO_VALUE else value


def _parsed(text: str) -> Any:
    stripped = text.strip()
    if stripped in _WORDS:
        return _WORDS[stripped]
    if stripped[:1] in ("{", "["):
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError):
            return _parsed_repr(stripped)
        return without_surrogates(value) if "\\ud" in stripped.lower() else value
    if stripped[:1] == "(":
        return _parsed_repr(stripped)
    if _NUMBER.fullmatch(stripped):
        number = float(stripped) if "." in stripped else int(stripped)
        return number if str(number) == stripped else _NO_VALUE
    return _NO_VALUE


def _parsed_repr(text: str) -> Any:
    if text[-1:] not in (")", "]", "}"):
        return _NO_VALUE
    try:
        return without_surrogates(json.loads(_repr_as_json(text)))
    except (ValueError, RecursionError):
        pass  # no lists, tuples and dicts of plain values: what is left (sets, bytes, other keys) is seldom large
    if len(text) > _REPR_CHARACTERS:
        return _NO_VALUE
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _NO_VALUE
    return _as_json(value) if isinstance(value, list | tuple | set | dict) else _NO_VALUE


def _repr_as_json(text: str) -> str:
    """Rewrite what `repr` makes of lists, tuples and dicts of plain values as JSON: linear, where `ast` is not.

    Raises:
        ValueError: there is something else in it.
    """
    written: list[str] = []
    place = 0
    # Not finditer: it goes on past what does not match, and takes quadratic time over quotes that are never closed.
    while token := _REPR_TOKEN.match(text, place):
        place = token.end()
        kind, found = token.lastgroup, token[0]
        if kind == "string":
            written.append(json.dumps(ast.literal_eval(found) if "\\" in found else found[1:-1]))
        elif kind != "trailing_comma":
            written.append(_AS_JSON.get(found, found))
    if place != len(text):
        raise ValueError("not only lists, tuples and dicts of plain values")
    return "".join(written)


def _as_json(value: Any) -> Any:
    """A Python literal as JSON can hold it: tuples and sets as lists, keys and bytes as text."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, str):
        return without_surrogates(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _value_of_texts(texts: list[str]) -> JsonValue:
    if len(texts) == 1:
        return parse_text(texts[0])
    values = [_parsed(text) for text in texts]
    return "\n".join(texts) if any(value is _NO_VALUE for value in values) else values


def _to_block(item: Any) -> dict[str, Any]:
    """A content block as `Reply` has them; one that no rule knows as the JSON it is."""
    unknown = {"type": "json", "value": item}
    if not isinstance(item, dict):
        return unknown
    kind, resource = item.get("type"), item.get("resource")
    if kind == "text" and isinstance(item.get("text"), str):
        return {"type": "text", "text": item["text"]}
    if kind in ("image", "audio") and isinstance(item.get("data"), str):
        return _file(item["data"], item)
    if kind == "resource" and isinstance(resource, dict):
        if isinstance(resource.get("text"), str):
            return {"type": "text", "text": resource["text"]}
        if isinstance(resource.get("blob"), str):
            return _file(resource["blob"], resource)
    if kind == "resource_link" and isinstance(item.get("uri"), str):
        return _file("", item)
    return unknown


def _file(data: str, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):  # not what it says it is: its text, then
        data = base64.b64encode(data.encode("utf-8", "replace")).decode()
    uri = _text_or_none(fields.get("uri"))
    name = _text_or_none(fields.get("name")) or ((uri or "").rstrip("/").rpartition("/")[2] or None)
    return {"type": "file", "data": data, "mime_type": _text_or_none(fields.get("mimeType")), "name": name, "uri": uri}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_nested_deeper(value: JsonValue, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _error_of(result: dict[str, Any]) -> str:
    content = result.get("content")
    texts = [block["text"] for block in map(_to_block, content if isinstance(content, list) else ()) if "text" in block]
    if texts:
        return "\n".join(texts)
    structured = result.get("structuredContent")
    return "" if structured is None else json.dumps(structured, ensure_ascii=False, default=str)[: ERROR_CHARACTERS * 4]
