"""Checks the arguments of meta-tools, so that an error names the right ones. Quotations of them in messages are cut: an
argument can be megabytes."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic import ValidationError

from codemode_server.domain.errors import MetaToolError
from codemode_server.mcp_server.tools.registry import MetaToolSpec, ToolArguments
from codemode_server.sandbox.guest.similar_names import similar_name

MAX_CHARACTERS = 20_000
"""Maximum length of an argument, such as a path or a query, that answers quote."""
_MAX_UNKNOWN = 5
"""Maximum number of unknown arguments that one answer names."""
_MAX_QUOTED = 100
_NOTHING = ("null", "none", "None")


def checked(spec: MetaToolSpec[Any], arguments: dict[str, Any]) -> ToolArguments:
    """The arguments of a call. Raises `MetaToolError`."""
    fields = spec.arguments.model_fields
    given, unknown = {}, {}
    for name, value in arguments.items():
        if isinstance(value, str) and len(value) > MAX_CHARACTERS and name not in spec.unbounded_arguments:
            problem = f"{_quoted(name)} has {len(value):,} characters, more than {MAX_CHARACTERS:,}"
            raise MetaToolError(f"{spec.name}: {problem}. It takes {spec.parameters}.")
        if name not in fields:
            unknown[name] = value
        # Some models fill in every argument: an optional one that is empty, null or 0 counts as not given.
        elif (value and value not in _NOTHING) or fields[name].is_required():
            given[name] = value
    try:
        made: ToolArguments = spec.arguments.model_validate(given | dict(islice(unknown.items(), _MAX_UNKNOWN)))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = "; ".join(_problem(detail, list(fields)) for detail in details)
        raise MetaToolError(f"{spec.name}: {problems}. It takes {spec.parameters}.") from error
    return made


def _problem(detail: Any, known: list[str]) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    field = _quoted(name)
    match detail["type"]:
        case "missing":
            return f"{field} is required"
        case "extra_forbidden":
            meant = similar_name(name, known)
            return f"there is no argument {field}" + (f" (did you mean {meant!r}?)" if meant else "")
        case _:
            return f"{field}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…")
