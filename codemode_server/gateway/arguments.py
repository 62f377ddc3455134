"""Whether a call's arguments fit the tool's schema, and if not, what is right; pure.

The schema is the upstream's, so it is not trusted either: `pattern`s are not run (a regular expression can take for
ever), no reference outside it is followed, and a schema that can't be used lets the call through for the upstream to
judge. Validation is by `jsonschema` (2020-12, what MCP has as its default dialect).
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.errors import InvalidArguments

_MAX_CHECKED_BYTES = 256 * 1024
"""Larger arguments are checked by name only: checking 16 MiB item by item would hold up every other call."""
_MAX_TOLD = 3


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> int:
    """Refuse arguments that the schema of `tool` refuses; gives their size as JSON, bytes.

    Raises:
        InvalidArguments: saying what is wrong and what the tool takes.
    """
    try:
        size = len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{tool.server}.{tool.name}: the arguments are no JSON: {error}") from error
    problems = _unknown_and_missing(tool, arguments)
    if not problems and size <= _MAX_CHECKED_BYTES:
        problems = _schema_problems(tool, arguments)
    if problems:
        told = "; ".join(problems[:_MAX_TOLD])
        more = f" (and {len(problems) - _MAX_TOLD} more)" if len(problems) > _MAX_TOLD else ""
        raise InvalidArguments(f"{tool.server}.{tool.name}: {told}{more}. {_takes(tool)}")
    return size


def _unknown_and_missing(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    known = {parameter.raw_name for parameter in tool.parameters}
    problems = [
        f"{parameter.raw_name!r} is required"
        for parameter in tool.parameters
        if parameter.is_required and parameter.raw_name not in arguments
    ]
    if known and tool.definition.input_schema.get("additionalProperties") is not True:
        open_ended = tool.definition.input_schema.get("patternProperties") or isinstance(
            tool.definition.input_schema.get("additionalProperties"), dict
        )
        for name in () if open_ended else arguments:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                problems.append(f"there is no {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    return problems


def _takes(tool: Tool) -> str:
    if not tool.parameters:
        return "It takes no arguments."
    names = [parameter.raw_name + ("" if parameter.is_required else "?") for parameter in tool.parameters]
    return "It takes " + ", ".join(names[:25]) + (", …" if len(names) > 25 else "") + "."


def _schema_problems(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    validator = _validator(json.dumps(tool.definition.input_schema, sort_keys=True))
    if validator is None:
        return []
    try:
        return [_told(error) for error in _first(validator.iter_errors(arguments), _MAX_TOLD + 1)]
    except Exception:  # noqa: BLE001 - whatever a hostile schema makes the validator do, the upstream will judge
        return []


@lru_cache(maxsize=4096)
def _validator(schema_text: str) -> Any:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    def unchecked(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> None:
        return None

    schema = json.loads(schema_text)
    if not isinstance(schema, dict) or not schema:
        return None
    # What validators.extend gives is untyped.
    checker: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {"pattern": unchecked, "patternProperties": unchecked, "$dynamicRef": unchecked}
    )
    return checker(schema, registry=Registry())


def _first(errors: Any, count: int) -> list[Any]:
    return [error for _, error in zip(range(count), errors, strict=False)]


def _told(error: Any) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    name = f"{where!r} " if where else ""
    expected = error.validator_value
    given = _bounded(error.instance)
    match error.validator:
        case "type":
            kinds = " or ".join(expected) if isinstance(expected, list) else expected
            return f"{name}must be {kinds}, not {given}"
        case "enum":
            return f"{name}must be one of {', '.join(map(_bounded, expected[:20]))}, not {given}"
        case "required":
            missing = [key for key in expected if key not in error.instance]
            return f"{name}lacks {', '.join(map(repr, missing[:5]))}"
        case "anyOf" | "oneOf":
            kinds = [str(option.get("type") or option.get("const") or "…") for option in expected[:6]]
            return f"{name}must be one of {' | '.join(kinds)}, not {given}"
        case _:
            return f"{name}{error.message[:200]}"


def _bounded(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
