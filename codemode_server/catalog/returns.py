"""Determines the type of a tool's result: declared by its schema if that is specific, else observed in calls.

Observed shapes are first converted to a schema, so that one writer names the classes of both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from codemode_server.catalog.json_schema import (
    Parameter,
    SchemaReader,
    branches_of,
    kinds_of,
    properties_of,
    required_of,
)
from codemode_server.catalog.observed import Observed
from codemode_server.catalog.schema_types import ANY, FILE, PyType, TypeWriter
from codemode_server.catalog.shapes import Shape, settled
from codemode_server.domain.tools import ANY_FORM, ResultForm, ToolDefinition
from codemode_server.support.text import counted

Origin = Literal["declared", "observed", "unknown"]
_MAX_SHOWN = 160
"""Maximum number of nodes of an observed result that are shown; each costs the model tokens."""
_TEXT_OR_JSON = "text or parsed JSON"
_NOT_CALLED = "type unknown until called"
_VARYING = "keys vary from call to call"
_UNSPECIFIC = re.compile(r"(?:list\[|dict\[str, )*Any(?: \| None)?\]*")


@dataclass(frozen=True, slots=True)
class ReturnType:
    type: PyType
    """Its classes are in the source of the stub."""
    origin: Origin
    calls: int = 0
    may_be_json: bool = False
    """True if the declared result is a single text, which programs receive parsed if it is JSON."""
    open_classes: frozenset[str] = frozenset()
    """Classes of the stub whose dicts may have more keys than the class declares."""
    closed_classes: frozenset[str] = frozenset()
    """Those whose dicts surely have no more keys."""
    keys_depend_on: str = ""
    """The argument that determines the keys of the result or of its rows; empty if the keys are fixed."""
    awaits_first_call: bool = False
    """True if the type is vague because it is learned from calls and there was none yet."""

    @property
    def remark(self) -> str:
        """`known_beside_type`, and whether the type is not known yet."""
        parts = (self.known_beside_type, _NOT_CALLED if self.awaits_first_call else "")
        return ", ".join(part for part in parts if part)

    @property
    def known_beside_type(self) -> str:
        """Facts that the type can't express, in a few words, for search results and stubs; often empty."""
        if self.origin == "observed":
            nothing = "None so far" if str(self.type) == "Any" else ""
            return f"keys depend on {self.keys_depend_on}" if self.keys_depend_on else nothing
        return _TEXT_OR_JSON if self.may_be_json else ""

    @property
    def comment(self) -> str:
        """The remark and the number of observed calls, for the comment in the stub."""
        observed = f"observed in {counted(self.calls, 'call')}" if self.calls else ""
        return ", ".join(part for part in (self.remark, observed) if part)


def return_type(
    name: str,
    definition: ToolDefinition,
    parameters: tuple[Parameter, ...],
    observed: Observed | None,
    writer: TypeWriter,
) -> ReturnType:
    hint = f"{name}_result"
    is_learned = observed is not None and is_vague(definition)
    shape = observed.result_shape if observed is not None and observed.calls else None
    if observed is not None and shape is not None and is_learned and (shape.kinds or not shape.unread):
        writer.read(None)
        found = writer.type_of(_schema(settled(shape, _MAX_SHOWN)), hint)
        depend_on = _keys_depend_on(shape, parameters)
        return ReturnType(found, "observed", observed.calls, open_classes=writer.open_classes, keys_depend_on=depend_on)
    writer.read(definition.output_schema)
    schema, is_lone = declared_result(definition)
    declared = writer.type_of(schema, hint)
    may_be_json = is_lone and "str" in declared.names
    return ReturnType(
        ANY if may_be_json else declared,
        "unknown" if may_be_json or str(declared) == "Any" else "declared",
        may_be_json=may_be_json,
        open_classes=writer.open_classes,
        closed_classes=writer.closed_classes,
        awaits_first_call=is_learned and shape is None,
    )


def _keys_depend_on(shape: Shape, parameters: tuple[Parameter, ...]) -> str:
    """The argument that determines the keys of a result or of its rows; empty if the keys are fixed."""
    if not shape.keys_vary and not (shape.items and shape.items.keys_vary):
        return ""
    deciding = [parameter.name for parameter in parameters if parameter.is_required or len(parameters) == 1]
    if len(deciding) == 1:
        return deciding[0]
    return "the arguments" if parameters else "the call"


def declared_result(definition: ToolDefinition) -> tuple[object, bool]:
    """The schema of the result as programs see it, and whether it was unwrapped from `{"result": x}`."""
    schema = definition.output_schema
    flat = SchemaReader(schema).flat(schema)
    if list(properties_of(flat)) == ["result"] and required_of(flat) in (["result"], []):
        return properties_of(flat)["result"], True
    return schema, False


def result_form(definition: ToolDefinition, observed: Observed | None) -> ResultForm:
    """The form of the result of a tool, as declared, or as it was in its calls."""
    is_list = observed is not None and observed.block_lists > 0
    if definition.output_schema is None:
        return ResultForm(is_list) if is_list else ANY_FORM
    reader = SchemaReader(definition.output_schema)
    kinds, items = _kinds(reader, declared_result(definition)[0])
    may_be_null = kinds == {"array", "null"}
    if may_be_null or kinds == {"array"}:
        is_list, kinds = True, _kinds(reader, items)[0]
    is_scalar = bool(kinds) and kinds <= {"integer", "number", "boolean", "null"}
    return ResultForm(is_list, is_list and kinds == {"string"}, kinds if is_scalar else frozenset(), may_be_null)


def _kinds(reader: SchemaReader, schema: object) -> tuple[frozenset[str], object]:
    """The JSON types that a schema allows, none if it allows any, and the schema of the items of a list."""
    flat = reader.flat(schema)
    branches = [reader.flat(branch) for branch in branches_of(flat)] or [flat]
    kinds = [kinds_of(branch) for branch in branches]
    items = next((branch["items"] for branch in branches if "items" in branch), None)
    return frozenset(kind for some in kinds for kind in some) if all(kinds) else frozenset(), items


def result_schema(definition: ToolDefinition, observed: Observed | None) -> tuple[object, object]:
    """The result's schema, declared or observed, and the root of its references; `{}` if nothing is known."""
    if not is_vague(definition):
        return declared_result(definition)[0], definition.output_schema
    is_known = observed is not None and observed.calls > 0
    return (_schema(settled(observed.result_shape, _MAX_SHOWN)) if observed is not None and is_known else {}), None


def is_vague(definition: ToolDefinition) -> bool:
    """True if the declared result tells a program nothing: any value, a dict of any values, or the single text in which
    SDKs wrap the return value of a function."""
    schema, is_lone = declared_result(definition)
    declared = TypeWriter(definition.output_schema).type_of(schema, "result")
    return not declared.literals and all(
        _UNSPECIFIC.fullmatch(name) or (is_lone and name == "str") for name in declared.names
    )


def _schema(shape: Shape) -> dict[str, Any]:
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
        case _:
            return {"type": _TYPES[kind]}


def _schema_of_others(shape: Shape) -> dict[str, Any]:
    """The schema of values under varying keys; unspecific if they have several kinds."""
    return _schema(shape.others) if shape.others and len(shape.others.kinds) == 1 else {}


_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "File": FILE}
