"""What a tool gives back, as a type: as its schema declares it where that says something, else as it was observed.

Observed shapes become types by way of a schema, so that one writer makes the same names and classes of both.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from codemode_server.catalog._text_layout import TextSample
from codemode_server.catalog.json_schema import (
    SchemaReader,
    branches_of,
    enum_of,
    kinds_of,
    properties_of,
    required_of,
    tuple_of,
)
from codemode_server.catalog.observed import Case, Observed
from codemode_server.catalog.parameters import Parameter
from codemode_server.catalog.schema_types import ANY, FILE, PyType, TypeWriter, union
from codemode_server.catalog.shapes import Shape, settled, without_words
from codemode_server.catalog.untrusted import literal, one_line
from codemode_server.domain.tools import ToolDefinition

Origin = Literal["declared", "observed", "unknown"]
_MAX_SHOWN = 160
"""Places of an observed result that are shown; a model pays for each."""
_MAX_FILLED_IN = 40
"""Limit for the places that a declared result leaves open."""
_NOTE_CHARACTERS = 250
_MAX_CASES = 8
_MIN_FOR_LITERALS = 5
"""Calls after which strings that recur are taken for all there are."""
_TEXT_OR_JSON = "text or parsed JSON"
_NOT_CALLED = "type unknown until called"
_VARYING = "keys vary from call to call"
_SAYS_NOTHING = re.compile(r"(?:list\[|dict\[str, )*Any(?: \| None)?\]*")


@dataclass(frozen=True, slots=True)
class ArgumentCase:
    """What a tool was seen to give for one value of one argument."""

    parameter: str
    """Its Python name."""
    value: str
    """As a Python literal; empty where the argument was not given."""
    type: PyType
    calls: int

    @property
    def text(self) -> str:
        given = f"{self.parameter}={self.value}" if self.value else f"without {self.parameter}"
        return f"{given}: {self.type}"


@dataclass(frozen=True, slots=True)
class ReturnType:
    """The type of a tool's result, and how far it is to be believed."""

    type: PyType
    """Its classes are in the source of the stub."""
    origin: Origin
    calls: int = 0
    """How many calls it was observed in."""
    by_argument: tuple[ArgumentCase, ...] = ()
    """If an argument decides what comes: the cases seen. `type` is their union."""
    may_be_json: bool = False
    """Whether it is declared as a lone text, which programs get read where it is JSON."""
    open_classes: frozenset[str] = frozenset()
    """Classes of the stub whose dicts have, or may well have, other keys than those they name."""
    keys_depend_on: str = ""
    """If the result is dicts, or a list of them, whose keys depend on what is asked for: on which argument."""
    text: TextSample | None = None
    """If the result is always a text: what is known of its layout."""
    awaits_first_call: bool = False
    """Whether the type says little because results are learned from calls and there was none yet."""

    @property
    def remark(self) -> str:
        """What the type can't say, in a few words: shown beside it in search results and stubs; often empty."""
        if self.origin == "observed":
            nothing = "None so far" if str(self.type) == "Any" else ""
            keys = f"keys depend on {self.keys_depend_on}" if self.keys_depend_on else nothing
            return _text_in_words(self.text) if self.text else keys
        parts = (_TEXT_OR_JSON if self.may_be_json else "", _NOT_CALLED if self.awaits_first_call else "")
        return ", ".join(part for part in parts if part)

    @property
    def comment(self) -> str:
        """The remark, and how often the type was observed: shown beside the type in the stub."""
        observed = f"observed in {self.calls:,} call{'' if self.calls == 1 else 's'}" if self.calls else ""
        return ", ".join(part for part in (self.remark, observed) if part)


def return_type(
    name: str,
    definition: ToolDefinition,
    parameters: tuple[Parameter, ...],
    observed: Observed | None,
    writer: TypeWriter,
) -> ReturnType:
    """The type of the result as programs see it; `name` is what classes are named after."""
    has_calls = observed is not None and observed.calls > 0
    found = _return_type(name, definition, parameters, observed if has_calls else None, writer)
    awaits_first_call = observed is not None and not has_calls and is_vague(definition)
    return replace(found, open_classes=writer.open_classes, awaits_first_call=awaits_first_call)


def _return_type(
    name: str,
    definition: ToolDefinition,
    parameters: tuple[Parameter, ...],
    observed: Observed | None,
    writer: TypeWriter,
) -> ReturnType:
    hint = f"{name}_result"
    if observed is None or (observed.shape.unread and not observed.shape.kinds) or not is_vague(definition):
        writer.read(definition.output_schema)
        schema, is_lone = declared_result(definition)
        if observed is not None:
            schema = _filled_in(SchemaReader(definition.output_schema), schema, observed.shape)
        declared = writer.type_of(schema, hint)
        if is_lone and "str" in declared.names:
            return ReturnType(ANY, "unknown", may_be_json=True)
        return ReturnType(declared, "unknown" if str(declared) == "Any" else "declared")
    writer.read(None)
    for parameter in parameters:
        if cases := _explaining(observed.by_argument.get(parameter.raw_name, {})):
            told = tuple(_told(name, parameter, value, case, writer) for value, case in cases.items())
            return ReturnType(union(*(case.type for case in told)), "observed", observed.calls, told)
    found = _type_of(observed.shape, observed.calls, hint, writer)
    return ReturnType(
        found,
        "observed",
        observed.calls,
        keys_depend_on=_keys_depend_on(observed.shape, parameters),
        text=observed.text if observed.shape.kinds == ("str",) else None,
    )


def _told(name: str, parameter: Parameter, value: str, case: Case, writer: TypeWriter) -> ArgumentCase:
    given = json.loads(value) if value else False
    word = given if isinstance(given, str) else parameter.name if given else ""
    found = _type_of(case.shape, case.calls, f"{name}_{word}_result", writer)
    return ArgumentCase(parameter.name, literal(given) if value else "", found, case.calls)


def _keys_depend_on(shape: Shape, parameters: tuple[Parameter, ...]) -> str:
    """The argument that decides the keys of a result or of its rows; empty where the keys don't vary."""
    if not shape.keys_vary and not (shape.items and shape.items.keys_vary):
        return ""
    deciding = [parameter.name for parameter in parameters if parameter.is_required or len(parameters) == 1]
    return deciding[0] if len(deciding) == 1 else "the arguments" if parameters else "the call"


def _text_in_words(text: TextSample) -> str:
    """The layout, and the sample plainly as something that was seen: it is the upstream's text."""
    sample = f"first line seen: {literal(text.first_line)}" if text.first_line else ""
    return ", ".join(part for part in (text.layout, sample) if part)


def declared_result(definition: ToolDefinition) -> tuple[object, bool]:
    """The schema of the result as programs see it, and whether it is that of a lone `{"result": x}`, which reaches
    them as x."""
    schema = definition.output_schema
    flat = SchemaReader(schema).flat(schema)
    if list(properties_of(flat)) == ["result"] and required_of(flat) in (["result"], []):
        return properties_of(flat)["result"], True
    return schema, False


def is_vague(definition: ToolDefinition) -> bool:
    """Whether the declared result says nothing that a program could use: anything, a dict of anything, or the lone
    text into which SDKs put whatever a function returns."""
    schema, is_lone = declared_result(definition)
    declared = TypeWriter(definition.output_schema).type_of(schema, "result")
    return not declared.literals and all(
        _SAYS_NOTHING.fullmatch(name) or (is_lone and name == "str") for name in declared.names
    )


def _type_of(shape: Shape, calls: int, hint: str, writer: TypeWriter) -> PyType:
    if calls < _MIN_FOR_LITERALS:  # a call that filters gives few of the strings that there are
        shape = without_words(shape)
    return writer.type_of(_schema(settled(shape, _MAX_SHOWN)), hint)


def _filled_in(reader: SchemaReader, schema: object, shape: Shape) -> object:
    """A declared schema with what was observed where it says nothing: as deep as the shape goes, and itself where there
    is nothing to fill in."""
    flat = reader.flat(schema)
    if branches_of(flat) or enum_of(flat):
        return schema
    more = flat.get("additionalProperties")
    match kinds_of(flat):
        case []:
            return _observed_in(flat, shape) if shape.kinds else schema
        case ["object"] if properties_of(flat):
            filled = {
                key: _filled_in(reader, inner, shape.keys[key]) if key in shape.keys else inner
                for key, inner in properties_of(flat).items()
            }
            is_same = all(filled[key] is inner for key, inner in properties_of(flat).items())
            return schema if is_same else {**flat, "properties": filled}
        case ["object"] if shape.keys and shape.kinds == ("dict",) and more in (None, True, {}):
            return schema if "patternProperties" in flat else _observed_in(flat, shape)
        case ["array"] if shape.kinds == ("list",) and shape.items and not tuple_of(flat):
            items = flat.get("items", {})
            inner = _filled_in(reader, items, shape.items)
            return schema if inner is items else {**flat, "items": inner}
        case _:
            return schema


def _observed_in(flat: dict[str, Any], shape: Shape) -> dict[str, Any]:
    found = _schema(settled(shape, _MAX_FILLED_IN))
    said = one_line(flat.get("description"), _NOTE_CHARACTERS) or found.get("description", "")
    return {**flat, **found, "description": f"{said} (observed)".lstrip()}


def _schema(shape: Shape) -> dict[str, Any]:
    """A JSON Schema of what was seen."""
    if not shape.kinds:
        return {"description": "None so far"} if shape.nulls and not shape.unread else {}
    found = [_schema_of(kind, shape) for kind in shape.kinds]
    if shape.unread and not (shape.dicts or shape.lists):
        return {}
    if shape.nulls:
        found.append({"type": "null"})
    return found[0] if len(found) == 1 else {"anyOf": found}


def _schema_of(kind: str, shape: Shape) -> dict[str, Any]:
    match kind:
        case "list":
            items = _schema(shape.items) if shape.items else {}
            note = {"description": _VARYING} if shape.items and shape.items.keys_vary else {}
            return {"type": "array", "items": items, **note}
        case "dict" if shape.keys_vary:
            return {"type": "object", "description": _VARYING}
        case "dict" if shape.keys:
            record: dict[str, Any] = {
                "type": "object",
                "properties": {key: _schema(inner) for key, inner in shape.keys.items()},
                "required": [key for key in shape.keys if shape.is_required(key)],
            }
            is_open = shape.others is not None or shape.has_open_keys
            return record | ({"additionalProperties": _schema_of_others(shape)} if is_open else {})
        case "dict":
            return {"type": "object", "additionalProperties": _schema_of_others(shape)}
        case "str" if words := shape.closed_words:
            return {"enum": list(words)}
        case _:
            return {"type": _TYPES[kind]}


def _schema_of_others(shape: Shape) -> dict[str, Any]:
    """What is under keys that vary; of several kinds none can be counted on."""
    return _schema(shape.others) if shape.others and len(shape.others.kinds) == 1 else {}


_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "File": FILE}


def _explaining(cases: dict[str, Case]) -> dict[str, Case]:
    """The cases, if they explain why results differ: each is of one kind, and some two are clearly not the same."""
    if not 2 <= len(cases) <= _MAX_CASES:
        return {}
    faces = [_Face.of(case) for case in cases.values()]
    is_clear = all(len(face.kinds) == 1 for face in faces)
    differ = any(one.differs_from(other) for one, other in combinations(faces, 2))
    return dict(sorted(cases.items())) if is_clear and differ else {}


@dataclass(frozen=True, slots=True)
class _Face:
    """What is seen first of a result: its kind, that of its items, and its fields or those of its items."""

    kinds: tuple[str, ...]
    item_kinds: tuple[str, ...]
    fields: frozenset[str]
    calls: int

    @classmethod
    def of(cls, case: Case) -> _Face:
        shape = case.shape
        record = shape.items if shape.items and not shape.dicts else shape
        return cls(shape.kinds, shape.items.kinds if shape.items else (), frozenset(record.keys), case.calls)

    def differs_from(self, other: _Face) -> bool:
        if self.kinds != other.kinds:
            return True
        if self.item_kinds and other.item_kinds and self.item_kinds != other.item_kinds:
            return True
        common, every = self.fields & other.fields, self.fields | other.fields
        is_seen_often = min(self.calls, other.calls) >= 2 and bool(self.fields) and bool(other.fields)
        return is_seen_often and 2 * len(common) < len(every)
