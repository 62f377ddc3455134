"""What may be stored, traced or handed on: text without the configured secrets, and shapes in place of values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal

from codemode_server.model import JsonValue

MASK = "***"
_MAX_SHAPE_KEYS = 40
_MAX_SHAPE_KEY = 200
_MAX_SHAPE_DEPTH = 6

Payloads = Literal["all", "shapes", "none"]


class Redactor:
    """Replaces the secrets of the configuration wherever they turn up.

    A secret is known by its value, plain and as JSON escapes it. What an upstream makes of it (base64, a hash) can't
    be known and is not found.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets for spelling in (secret, json.dumps(secret)[1:-1]) if spelling}
        longest_first = sorted(spellings, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def value(self, value: JsonValue) -> JsonValue:
        """The same JSON value with the secrets in its strings replaced; the very same object where there are none."""
        if self._pattern is None or not self._pattern.search(json.dumps(value, ensure_ascii=False)):
            return value
        return self._walked(value)

    def _walked(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._walked(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._walked(item) for item in value]
        # A secret of digits may come back as a number.
        is_secret = not isinstance(value, bool | None) and self._pattern and self._pattern.fullmatch(str(value))
        return MASK if is_secret else value


def payload(value: JsonValue, keep: Payloads, redactor: Redactor, limit_bytes: int = 65_536) -> str | None:
    """`value` as a record or trace may hold it: JSON text, a shape, or nothing."""
    if keep == "none":
        return None
    if keep == "shapes":
        return json.dumps(shape(redactor.value(value)))
    text = redactor.text(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode())
    return text if len(text) <= limit_bytes else text[:limit_bytes] + f"… ({len(text)} characters)"


def shape(value: JsonValue, depth: int = 0) -> Any:
    """Types, keys and lengths of a JSON value; never a value of it.

    `{"rows": [{"id": 1}, {"id": 2}]}` has the shape `{"rows": ["2 x", {"id": "int"}]}`.
    """
    if isinstance(value, dict):
        if depth >= _MAX_SHAPE_DEPTH:
            return f"dict of {len(value)}"
        few = islice(value.items(), _MAX_SHAPE_KEYS)
        shown = {str(key)[:_MAX_SHAPE_KEY]: shape(item, depth + 1) for key, item in few}
        return shown if len(value) <= _MAX_SHAPE_KEYS else shown | {"…": f"{len(value) - _MAX_SHAPE_KEYS} more keys"}
    if isinstance(value, list):
        if not value or depth >= _MAX_SHAPE_DEPTH:
            return f"list of {len(value)}"
        return [f"{len(value)} x", shape(value[0], depth + 1)]
    if isinstance(value, str):
        return f"str of {len(value)}"
    return "None" if value is None else type(value).__name__
