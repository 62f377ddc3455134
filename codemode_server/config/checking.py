"""Validates the tree of the file; reports what pydantic rejects with line and key, but without values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from codemode_server.config.document import Node
from codemode_server.config.problems import Problem, Problems, joined, nearest
from codemode_server.config.settings import Settings

KeyPath: TypeAlias = tuple[str | int, ...]

_NOTHING_IS_EMPTY = frozenset(Settings.model_fields) | {
    *("langfuse", "settings", "tools", "rules", "args", "env", "headers", "include", "exclude", "effects")
}
"""Keys that may be empty, for instance because all their lines are commented out."""
_AS_WRITTEN = frozenset({"args", "env", "headers"})
"""Keys whose values are always text: `PORT: 8080` is the text "8080", `DEBUG: yes` is "yes"."""
_OTHERWISE_CALLED = {
    "disabled": "enabled",
    "workdir": "cwd",
    "working_dir": "cwd",
    "endpoint": "url",
    "address": "url",
    "upstreams": "servers",
    "policy": "permissions",
    "policies": "permissions",
}
"""Beside the names that hosts have for our settings."""


def check(tree: Node, problems: Problems, excused: Iterable[KeyPath] = ()) -> Settings | None:
    """The settings; None after adding problems. `excused` are paths with known problems; neither they nor problems that
    follow from them are reported again."""
    try:
        return Settings.model_validate(plain(tree))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    excused = tuple(excused)
    for detail in details:
        place = _place(detail)
        if not any(_one_holds_the_other(place, other) for other in excused):
            problems.found.append(_problem(tree, place, detail))
    return None


def plain(node: Node, path: KeyPath = ()) -> Any:
    """The tree as plain data for pydantic."""
    if isinstance(node.value, dict):
        return {
            name: plain(child, (*path, name))
            for name, child in node.value.items()
            if not (child.value is None and name in _NOTHING_IS_EMPTY and not _is_as_written(path))
        }
    if isinstance(node.value, list):
        return [plain(child, (*path, index)) for index, child in enumerate(node.value)]
    if node.value is not None and _is_as_written(path):
        return node.text
    if node.value is None and path[:1] == ("servers",) and len(path) == 2:
        return {}
    return node.value


def find(tree: Node, path: Sequence[str | int]) -> Node:
    """The node at `path`, or its nearest existing ancestor."""
    node = tree
    for step in path:
        members: dict[str | int, Node] = {}
        members |= enumerate(node.value) if isinstance(node.value, list) else node.entries.items()
        if step not in members:
            break
        node = members[step]
    return node


def _is_as_written(path: KeyPath) -> bool:
    return (len(path) >= 3 and path[0] == "servers" and path[2] in _AS_WRITTEN) or path[:1] == ("env",)


def _place(detail: ErrorDetails) -> KeyPath:
    place = tuple(step for step in detail["loc"] if step != "[key]")
    member = detail.get("ctx", {}).get("member") if detail["type"] == "problem_within" else None
    return place if member is None else (*place, member)


def _one_holds_the_other(one: KeyPath, other: KeyPath) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _problem(tree: Node, place: KeyPath, detail: ErrorDetails) -> Problem:
    node = find(tree, place)
    where = node.where
    if detail["type"] == "extra_forbidden":
        return Problem(node.line, where, _unknown_key(place))
    if detail["type"] == "missing":
        where = joined(where, str(place[-1]))
    if detail["loc"][:1] == ("servers",) and detail["loc"][2:] == ("[key]",):
        message = "a server's name is up to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit"
        return Problem(node.line, where, message)
    return Problem(node.line, where, _message(detail, node))


def _unknown_key(place: KeyPath) -> str:
    from codemode_server.config.hosts import SYNONYMS

    name = str(place[-1])
    known = _known_keys(place[:-1])
    meant = _OTHERWISE_CALLED.get(name) or SYNONYMS.get(name)
    if meant not in known:
        meant = nearest(name, known)
    if meant is not None:
        return f"unknown key; did you mean {meant!r}?"
    return f"unknown key; there are {', '.join(known)}"


def _known_keys(section: KeyPath) -> tuple[str, ...]:
    model: type[BaseModel] | None = Settings
    for position, step in enumerate(section):
        is_name_of_server = position == 1 and section[0] == "servers"
        if model is not None and not (is_name_of_server or isinstance(step, int)):
            model = _model_in(model.model_fields[step].annotation) if step in model.model_fields else None
    fields = model.model_fields if model is not None else {}
    return tuple(name for name, field in fields.items() if not field.exclude)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section class in a field's type, also inside collections and optionals."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _one_of(node: Node, context: dict[str, Any]) -> str:
    expected = str(context["expected"])
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    meant = nearest(node.text, names)
    return f"must be one of {', '.join(map(repr, names))}" + (f"; did you mean {meant!r}?" if meant else "")


_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}
"""By the first word of pydantic's error type."""
_KINDS: dict[type, str] = {
    NoneType: "nothing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
}
_SENTENCES = {
    "string_too_long": "is too long: at most {max_length} characters",
    "too_long": "has too many items: at most {max_length}",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be up to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:.0f}",
    "value_error": "{error}",
    "problem_within": "{message}",
    "missing": "is missing",
}
"""Messages by pydantic's error type. Pydantic's own messages may contain the value."""


def _message(detail: ErrorDetails, node: Node) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        return _one_of(node, context)
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**context)
    expected = _EXPECTED.get(kind.partition("_")[0])
    if expected is None:
        return f"can't be used here ({kind})"
    hint = "; put it in quotes" if expected == "text" and isinstance(node.value, bool | int | float | None) else ""
    return f"must be {expected}, not {_KINDS.get(type(node.value), 'a mapping')}{hint}"
