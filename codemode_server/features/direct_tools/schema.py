"""Makes the input schema of a direct tool safe for hosts and models: bounded, masked, and without what they refuse.

Models' interfaces want an object at the top, with names of arguments that they allow, and no `anyOf` beside it; hosts
must not follow references to elsewhere. What is dropped here is still checked by the gateway before a call is sent.
"""

from __future__ import annotations

import json
import re
from typing import Any

from codemode_server.catalog.schema_dialects import LISTS, MAPS, SCHEMAS, readable_schema
from codemode_server.catalog.untrusted import prose
from codemode_server.support.redaction import Redactor

MAX_CHARACTERS = 12_000
"""Maximum length of a schema as JSON; the largest of 1,469 real tools has 24,000, half of it descriptions."""
_DESCRIPTION_CHARACTERS = (600, 120, 0)
"""Lengths to which descriptions within a schema are cut, until it is short enough."""
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REFERENCE = re.compile(r"#(/(\$defs|definitions)/[^/]+)?")
_PARTS = SCHEMAS | {"not", "if"}
_VALUES: dict[str, type] = {
    **dict.fromkeys(("const", "default", "deprecated", "enum", "required", "type"), object),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), object),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains"), object),
    **dict.fromkeys(("minProperties", "maxProperties"), object),
    **dict.fromkeys(("format", "pattern"), str),
    "examples": list,
    "uniqueItems": bool,
}
"""Keywords whose value is copied, and its kind where `readable_schema` does not see to it: models' interfaces refuse a
schema in which one is of another kind. All others are dropped: names of dialects, and `x-mcp-header`, with which an
upstream could have the host put arguments into HTTP headers."""
_TOP = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"})
"""Keywords that models' interfaces refuse at the top."""


class UnfitSchema(ValueError):
    """Raised for an input schema that can't be shown to models; the message says why."""


def safe_schema(schema: object, redactor: Redactor) -> dict[str, Any]:
    """The schema as a host may have it. Raises `UnfitSchema`: models' interfaces would refuse it, and with it all tools
    of the request."""
    readable = readable_schema(schema)
    for length in _DESCRIPTION_CHARACTERS:
        made = _copy(readable, redactor, length)
        if len(json.dumps(made, ensure_ascii=False)) <= MAX_CHARACTERS:
            break
    else:
        raise UnfitSchema(f"its input schema has more than {MAX_CHARACTERS:,} characters")
    properties = made.get("properties", {})
    for name in properties:
        if not _ARGUMENT.fullmatch(name):
            raise UnfitSchema(f"models take no argument with the name {name[:80]!r}")
    return {key: value for key, value in made.items() if key not in _TOP} | {"type": "object", "properties": properties}


def _copy(schema: Any, redactor: Redactor, description_characters: int) -> Any:
    if not isinstance(schema, dict):
        return schema  # true or false
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _PARTS:
            made[key] = _copy(value, redactor, description_characters)
        elif key in LISTS:
            made[key] = [_copy(part, redactor, description_characters) for part in value]
        elif key in MAPS:
            parts = {name: _copy(part, redactor, description_characters) for name, part in value.items()}
            made[key] = {redactor.text(name): part for name, part in parts.items()}
        elif key == "description":
            if isinstance(value, str) and (text := _short(value, redactor, description_characters)):
                made[key] = text
        elif key == "$ref":
            if _REFERENCE.fullmatch(value):
                made[key] = redactor.text(value)
        elif key in _VALUES and isinstance(value, _VALUES[key]):
            made[key] = redactor.value(value)
    return made


def _short(text: str, redactor: Redactor, characters: int) -> str:
    return prose(redactor.head(text, 4 * characters), characters) if characters else ""
