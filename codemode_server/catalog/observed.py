"""Observations of a tool's results: the number of its successful calls, and the shape of all results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from codemode_server.catalog import shapes
from codemode_server.catalog.shape_reading import shape_of_reply, without_asked_keys
from codemode_server.catalog.shapes import Shape
from codemode_server.domain.tools import ToolDefinition

MAX_BYTES = 16_384
"""Maximum size of one tool's observations, as JSON."""


class ToolKey(NamedTuple):
    """Identifies a tool with the schemas that it had when it was observed."""

    upstream: str
    tool: str
    """Raw names."""
    schemas: str
    """Digest of its schemas; a tool with other schemas is observed anew."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The results of the successful calls of one tool."""

    calls: int
    shape: Shape

    def merged(self, other: Observed) -> Observed:
        """Both combined, bounded in size."""
        return Observed(self.calls + other.calls, shapes.settled(shapes.merge_calls(self.shape, other.shape)))

    def to_json(self) -> str:
        """JSON of at most `MAX_BYTES`, without the deepest parts if it would be longer."""
        nodes, shape = shapes.MAX_NODES, self.shape
        while True:
            data = {"calls": self.calls, "shape": shapes.to_json(shape)}
            text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
            if len(text) <= MAX_BYTES or nodes <= 1:
                return text
            nodes //= 2
            shape = shapes.settled(self.shape, nodes)

    @classmethod
    def from_json(cls, text: str) -> Observed | None:
        """Reads the output of `to_json`; None for anything else, such as a damaged row."""
        try:
            data = json.loads(text) if len(text) <= MAX_BYTES else {}
            calls = data["calls"]
            return cls(calls, shapes.from_json(data["shape"])) if type(calls) is int and 0 <= calls < 2**53 else None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None


NOTHING_YET = Observed(0, Shape())


def observe(arguments: Mapping[str, Any], value: Any, encoding: str) -> Observed:
    """The observation of one call; `value` is the reply that the program gets, without secrets."""
    return Observed(1, shapes.settled(without_asked_keys(shape_of_reply(value, encoding), arguments)))


def schemas_digest(definition: ToolDefinition) -> str:
    """Digest of a tool's schemas, under which its observations are stored."""
    try:
        said = json.dumps([definition.input_schema, definition.output_schema], default=str)
    except (RecursionError, ValueError, TypeError):
        said = "unreadable"  # nested too deeply; the stub has Any there
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:16]
