"""Converts an input schema to the parameters of a Python function, in the order of its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.json_schema import SchemaReader, branches_of, properties_of, required_of
from codemode_server.catalog.naming import parameter_names


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    """The Python name."""
    raw_name: str
    """The upstream's name."""
    is_required: bool
    schema: Any
    """Its schema; untrusted."""


def parameters_of(input_schema: object) -> tuple[Parameter, ...]:
    """Required parameters first, each group in the order of the schema; positional arguments follow this order."""
    reader = SchemaReader(input_schema)
    declared, required = _declared(reader, input_schema)
    names = parameter_names(declared)
    parameters = [Parameter(names[raw], raw, raw in required, schema) for raw, schema in declared.items()]
    parameters.sort(key=lambda parameter: not parameter.is_required)
    return tuple(parameters)


def takes_any_arguments(input_schema: object) -> bool:
    """True if the tool accepts arguments without declaring them."""
    flat = SchemaReader(input_schema).flat(input_schema)
    more = flat.get("additionalProperties")
    return not properties_of(flat) and (more is True or isinstance(more, dict))


def _declared(reader: SchemaReader, input_schema: object) -> tuple[dict[str, Any], set[str]]:
    """The properties and the required names; of alternatives, all properties and the names that each requires."""
    flat = reader.flat(input_schema)
    declared, required = dict(properties_of(flat)), set(required_of(flat))
    branches = [reader.flat(branch) for branch in branches_of(flat)]
    for branch in branches:
        for name, schema in properties_of(branch).items():
            declared.setdefault(name, schema)
    if branches:
        required |= set.intersection(*(set(required_of(branch)) for branch in branches))
    for name in required_of(flat):  # also if it is not declared: without it the upstream refuses the call
        declared.setdefault(name, {})
    return {name: schema for name, schema in declared.items() if isinstance(name, str)}, required
