"""Checks a call's arguments against the tool's schema; the error says what the tool expects. Pure.

The schema is the upstream's, so it is not trusted either: no regular expression in it is run (one can take for ever),
no reference outside it is followed, and the time for one call is bounded. With a schema that can't be used the call is
sent unchecked. `jsonschema` validates by dialect 2020-12, as which the catalog has rewritten it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal, DecimalException
from functools import lru_cache
from itertools import islice
from typing import Any

from codemode_server.calls.fitted_arguments import fitted_arguments
from codemode_server.calls.schema_errors import form_of, in_words, quoted
from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import SchemaReader
from codemode_server.catalog.returns import declared_result, is_vague
from codemode_server.domain.errors import InvalidArguments
from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.guest.similar_names import similar_name

_TRIES_SECONDS = 0.15, 0.05
"""Time of the first and of the second try: a pause of the interpreter in the first one, as for its garbage collection,
is no reason to send wrong arguments unchecked."""
_MAX_PROBLEMS = 5


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> None:
    """Refuse arguments that the schema of `tool` refuses. Raises `InvalidArguments`: the message says what is wrong
    and, where names are wrong, what the tool takes."""
    problems = _unknown_and_missing(tool, arguments)
    takes = f" {_takes(tool)}" if problems else ""  # where a value is wrong, the names of the others don't help
    problems += _schema_problems(tool, arguments, beside_others=bool(problems))
    if problems:
        shown = "; ".join(problems[:_MAX_PROBLEMS])
        more = " (and more)" if len(problems) > _MAX_PROBLEMS else ""
        raise InvalidArguments(f"{tool.server}.{tool.name}: {shown}{more}.{takes}")


def known_problems(tool: Tool, known: dict[str, Any], *, is_all: bool) -> list[str]:
    """Problems that `check_arguments` would certainly find in these values, for any values of the other arguments.
    `is_all`: there are no other arguments, so rules about several arguments together are checked as well."""
    fitted = fitted_arguments(tool, known)
    return _schema_problems(tool, fitted, beside_others=not is_all)[:_MAX_PROBLEMS]


def _unknown_and_missing(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    members, names = tool.input.members, arguments.keys()
    if members.required <= names and (members.is_open or names <= members.schemas.keys()):
        return []
    known = {parameter.raw_name for parameter in tool.parameters}
    problems = [
        f"{quoted(parameter.raw_name)} is required"
        for parameter in tool.parameters
        if parameter.is_required and parameter.raw_name not in arguments
    ]
    if not tool.input.members.is_open:
        free = [parameter for parameter in tool.parameters if parameter.raw_name not in arguments]
        for name in arguments:
            if len(problems) > _MAX_PROBLEMS:  # a million wrong names are not worth a million hints
                break
            if name not in known:
                required = [parameter.raw_name for parameter in free if parameter.is_required]
                meant = similar_name(name, [parameter.raw_name for parameter in free], preferred=required)
                free = [parameter for parameter in free if parameter.raw_name != meant]
                problems.append(f"there is no {quoted(name)}" + (f" (did you mean {meant!r}?)" if meant else ""))
    return problems


def _takes(tool: Tool) -> str:
    if not tool.parameters:
        return "It takes no arguments."
    names = [parameter.raw_name + ("" if parameter.is_required else "?") for parameter in tool.parameters]
    return "It takes " + ", ".join(names[:25]) + (", …" if len(names) > 25 else "") + "."


def declared_form(tool: Tool) -> str:
    """The result that the tool declares, as programs see it, in a few words; empty if it declares none."""
    schema = tool.definition.output_schema
    if schema is None or is_vague(tool.definition):
        return ""
    return form_of(SchemaReader(schema).flat(declared_result(tool.definition)[0]))


def result_problem(tool: Tool, result: JsonValue) -> str:
    """Why this is no result that the tool declares; empty if it is one, or none is declared."""
    if not declared_form(tool):
        return ""
    whole = {"result": result} if declared_result(tool.definition)[1] else result
    return "; ".join(_schema_problems(tool, whole, is_result=True)[:_MAX_PROBLEMS])


def _schema_problems(tool: Tool, value: Any, *, beside_others: bool = False, is_result: bool = False) -> list[str]:
    for seconds in _TRIES_SECONDS:
        try:
            validator = _validator(tool, is_result=is_result)
            errors = validator.evolve(format_checker=_Deadline(seconds)).iter_errors(value)
            if beside_others:
                errors = (error for error in errors if list(error.absolute_schema_path)[:1] == ["properties"])
            if not (found := list(islice(errors, _MAX_PROBLEMS + 1))):
                return []
            reader = SchemaReader(validator.schema)
            return list(dict.fromkeys(in_words(error, reader) for error in found))
        except _DeadlinePassed:
            continue
        except Exception:  # noqa: BLE001 - a hostile schema can break the validator; the call is sent unchecked then
            return []
    return []


class _Deadline:
    """The time at which a check stops; passed as format checker, since validators pass that on to subschemas. Counted
    in processor time of the thread: on a busy machine no check would be left out for the time it has waited."""

    def __init__(self, seconds: float) -> None:
        self.ends_at = time.thread_time() + seconds

    def check(self, instance: object, format: str) -> None:  # noqa: A002 - jsonschema calls it; no format is checked
        return


class _DeadlinePassed(Exception):
    """Raised when a check takes too long: references that fan out take exponential time."""


_Check = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@lru_cache(maxsize=256)
def _validator(tool: Tool, *, is_result: bool) -> Any:
    from referencing import Registry

    schema = tool.definition.output_schema if is_result else tool.input.schema
    return schema_checker()(schema, registry=Registry())


@lru_cache(maxsize=1)
def schema_checker() -> Any:
    """jsonschema's checks of 2020-12, each bounded, the dangerous ones replaced. Loads the library: 0.1 s."""
    from jsonschema import Draft202012Validator, validators

    checks = {name: _bounded_check(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    additional = checks["additionalProperties"]

    def unless_patterns(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        return None if schema.get("patternProperties") else additional(validator, value, instance, schema)

    checks |= dict.fromkeys(_UNCHECKED, _unchecked)
    checks |= {"additionalProperties": unless_patterns, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    # What it gives is untyped.
    return validators.extend(Draft202012Validator, checks)  # type: ignore[no-untyped-call]


_UNCHECKED = ("pattern", "patternProperties", "$dynamicRef", "unevaluatedProperties", "unevaluatedItems")
"""The first two are regular expressions, the unevaluated ones run those of their neighbours."""


def _unchecked(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> None:
    return None


def _bounded_check(check: _Check) -> _Check:
    def bounded(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        if time.thread_time() > validator.format_checker.ends_at:
            raise _DeadlinePassed
        return check(validator, value, instance, schema)

    return bounded


def _unique_items(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """In linear time; jsonschema compares each item with each."""
    from jsonschema import ValidationError

    def text_of(item: Any) -> str:
        if time.thread_time() > validator.format_checker.ends_at:
            raise _DeadlinePassed
        return json.dumps(item, sort_keys=True)

    if wanted is True and isinstance(instance, list) and len(set(map(text_of, instance))) < len(instance):
        yield ValidationError("has an item twice")


def _multiple_of(_validator: Any, step: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """Compares decimals as they are written; 19.99 and 0.01 have no exact binary form."""
    from jsonschema import ValidationError

    if not isinstance(instance, int | float) or isinstance(instance, bool):
        return
    try:
        is_multiple = Decimal(repr(instance)) % Decimal(repr(step)) == 0
    except DecimalException:  # more digits than are compared
        return
    if not is_multiple:
        yield ValidationError(f"{instance!r} is not a multiple of {step!r}")
