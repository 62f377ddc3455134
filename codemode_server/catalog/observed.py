"""Observations of a tool's results: the shape of all results, and of results by the value of certain arguments.

These are arguments whose schema lists all values: an enum of a few strings, or a boolean. The values are constants of
the tool, not user data, and often determine the structure of the result (`mode="log"`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from codemode_server.catalog import shapes
from codemode_server.catalog.json_schema import SchemaReader, branches_of, enum_of, kinds_of
from codemode_server.catalog.parameters import Parameter
from codemode_server.catalog.shapes import Shape
from codemode_server.domain.tools import ToolDefinition

MAX_BYTES = 16_384
"""Maximum size of one tool's observations, as JSON."""
_MAX_CASE_NODES = 300
_MAX_VALUES = 8
_MAX_PARAMETERS = 3
_FORMAT = 1


class ToolKey(NamedTuple):
    """Identifies a tool with the schemas that it had when it was observed."""

    upstream: str
    tool: str
    """Raw names."""
    schemas: str
    """Digest of its schemas; a tool with other schemas is observed anew."""


@dataclass(frozen=True, slots=True)
class Case:
    """The results of the calls with one value of one argument."""

    calls: int
    shape: Shape

    def merged(self, other: Case) -> Case:
        return Case(self.calls + other.calls, shapes.merge(self.shape, other.shape))


@dataclass(frozen=True, slots=True)
class Observed:
    """The results of the successful calls of one tool.

    Merging is commutative but for the places where keys begin to vary, which depend on earlier results.
    """

    calls: int
    shape: Shape
    by_argument: dict[str, dict[str, Case]] = field(default_factory=dict)
    """Raw name of a parameter → value as JSON → results; the value is `""` if the argument was not given."""

    def merged(self, other: Observed) -> Observed:
        """Both combined, bounded in size."""
        varying = self._varying_places(other)
        shape = shapes.settled(shapes.without_keys(shapes.merge(self.shape, other.shape), varying))
        by_argument = {name: dict(cases) for name, cases in self.by_argument.items()}
        for name, cases in other.by_argument.items():
            mine = by_argument.setdefault(name, {})
            for value, case in cases.items():
                known = mine.get(value)
                if known and known.shape is self.shape and case.shape is other.shape:  # only this value so far
                    mine[value] = Case(known.calls + case.calls, shape)
                else:
                    both = known.merged(case) if known else case
                    found = shapes.without_keys(both.shape, varying)
                    mine[value] = Case(both.calls, shapes.settled(found, _MAX_CASE_NODES))
        return Observed(self.calls + other.calls, shape, by_argument)

    def _varying_places(self, other: Observed) -> set[shapes.Path]:
        """Paths whose keys vary, found by comparing calls with the same listed arguments."""
        if not self.by_argument and not other.by_argument:
            return set(shapes.places_that_differ(self.shape, other.shape))
        if self.by_argument.keys() != other.by_argument.keys():
            return set()
        return set.intersection(
            *(
                {
                    place
                    for value in cases.keys() & other.by_argument[name].keys()
                    for place in shapes.places_that_differ(cases[value].shape, other.by_argument[name][value].shape)
                }
                for name, cases in self.by_argument.items()
            )
        )

    def outline(self) -> tuple[object, ...]:
        """Equal for observations that result in the same type."""
        cases = frozenset(
            (name, value, shapes.outline(case.shape))
            for name, known in self.by_argument.items()
            for value, case in known.items()
        )
        return (shapes.outline(self.shape), cases)

    def without_words(self) -> Observed:
        """A copy without any string of the results."""
        by_argument = {
            name: {value: Case(case.calls, shapes.without_words(case.shape)) for value, case in cases.items()}
            for name, cases in self.by_argument.items()
        }
        return Observed(self.calls, shapes.without_words(self.shape), by_argument)

    def to_json(self) -> str:
        """JSON of at most `MAX_BYTES`; drops the results by argument first, then the deepest parts."""
        text = self._as_text(self.shape, self.by_argument)
        nodes = shapes.MAX_NODES
        while len(text) > MAX_BYTES and nodes > 1:
            nodes //= 2
            text = self._as_text(shapes.settled(self.shape, nodes), {})
        return text

    def _as_text(self, shape: Shape, by_argument: dict[str, dict[str, Case]]) -> str:
        data: dict[str, Any] = {"format": _FORMAT, "calls": self.calls, "shape": shapes.to_json(shape)}
        if by_argument:
            data["by_argument"] = {
                # If all calls had the same argument, its shape is the overall one and is stored once.
                name: {
                    value: [case.calls] if case.shape == shape else [case.calls, shapes.to_json(case.shape)]
                    for value, case in cases.items()
                }
                for name, cases in by_argument.items()
            }
        return json.dumps(data, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Observed | None:
        """Reads the output of `to_json`; None for anything else, such as a damaged row."""
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT or len(text) > MAX_BYTES:
                return None
            shape = shapes.from_json(data["shape"])
            by_argument = {
                name: {
                    value: Case(_number(calls), shapes.from_json(own_shape[0]) if own_shape else shape)
                    for value, (calls, *own_shape) in cases.items()
                }
                for name, cases in data.get("by_argument", {}).items()
            }
            return cls(_number(data["calls"]), shape, by_argument)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None


NOTHING_YET = Observed(0, Shape())
"""The observations of a tool that has not been called yet."""


@dataclass(frozen=True, slots=True)
class DiscriminatorParameter:
    """A parameter whose schema lists all of its values, by which results are distinguished."""

    raw_name: str
    values: tuple[str, ...]
    """As JSON."""
    default: str
    """As JSON; `""` for none."""

    def given(self, arguments: Mapping[str, Any]) -> str:
        """The value in a call, as JSON; `""` for any other value."""
        if self.raw_name not in arguments:
            return self.default
        value = arguments[self.raw_name]
        text = json.dumps(value) if isinstance(value, bool) or (isinstance(value, str) and len(value) <= 40) else ""
        return text if text in self.values else ""


def observe(
    telling: Iterable[DiscriminatorParameter],
    arguments: Mapping[str, Any],
    value: Any,
    encoding: str,
    *,
    keep_words: bool = False,
) -> Observed:
    """The observation of one call; `value` is the reply that the program gets, without secrets."""
    shape = shapes.of_reply(value, encoding, keep_words=keep_words)
    shape = shapes.settled(shapes.without_asked_for(shape, arguments))
    by_argument = {one.raw_name: {one.given(arguments): Case(1, shape)} for one in telling}
    return Observed(1, shape, by_argument)


def discriminators_of(parameters: Iterable[Parameter], input_schema: object) -> tuple[DiscriminatorParameter, ...]:
    """The parameters by which results may differ in structure; at most a few."""
    reader = SchemaReader(input_schema)
    found = []
    for parameter in parameters:
        flat = reader.flat(parameter.schema)
        if values := _values(reader, flat):
            default = flat.get("default")
            text = json.dumps(default) if isinstance(default, str | bool) else ""
            found.append(DiscriminatorParameter(parameter.raw_name, values, text if text in values else ""))
    return tuple(found[:_MAX_PARAMETERS])


def schemas_digest(definition: ToolDefinition) -> str:
    """Digest of a tool's schemas, under which its observations are stored."""
    try:
        said = json.dumps([definition.input_schema, definition.output_schema], default=str)
    except (RecursionError, ValueError, TypeError):
        said = "unreadable"
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:16]


def _values(reader: SchemaReader, flat: dict[str, Any]) -> tuple[str, ...]:
    branches = [branch for branch in branches_of(flat) if branch != {"type": "null"}]
    if len(branches) == 1:  # `X | null`
        flat = {**reader.flat(branches[0]), **flat}
    values = [value for value in enum_of(flat) if value is not None]
    if not values and set(kinds_of(flat)) - {"null"} == {"boolean"}:
        return ("true", "false")
    if not 2 <= len(values) <= _MAX_VALUES or not all(isinstance(value, str) and len(value) <= 40 for value in values):
        return ()
    return tuple(map(json.dumps, values))


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError("no count")
    return value
