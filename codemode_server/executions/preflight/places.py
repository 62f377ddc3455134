"""Where in a tool's result the dicts of a class are, as a program would write it. Read from the stub."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MAX_PLACE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class TypedDictClass:
    """One TypedDict of a stub."""

    name: str
    types: dict[str, ast.expr]
    """The annotation of each key."""
    optional: frozenset[str]
    """Keys that a dict may lack."""


def typed_dicts_in(node: ast.stmt) -> Iterator[TypedDictClass]:
    """The TypedDict that a statement of a stub defines, if it does."""
    types: dict[str, ast.expr] = {}
    match node:
        case ast.ClassDef(name=name, keywords=keywords, body=body):
            fields = [field for field in body if isinstance(field, ast.AnnAssign)]
            types = {field.target.id: field.annotation for field in fields if isinstance(field.target, ast.Name)}
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, ast.Dict() as held], keywords=keywords)):
            pairs = zip(held.keys, held.values, strict=True)
            types = {str(key.value): kind for key, kind in pairs if isinstance(key, ast.Constant)}
        case _:
            return
    is_partial = any(word.arg == "total" for word in keywords)
    optional = (key for key, kind in types.items() if is_partial or _outer(kind) == "NotRequired")
    yield TypedDictClass(name, types, frozenset(optional))


def places_of(records: Mapping[str, TypedDictClass], call: str, returned: list[ast.expr]) -> dict[str, str]:
    """By class: `what f() gives`, `f()['owner']`, `an item of f()['rows']`; `call` is `f()`."""
    found: dict[str, set[str]] = {}
    waiting = [(kind, call, "") for kind in returned]
    while waiting:
        kind, path, step = waiting.pop()
        match kind:
            case ast.BinOp(left=left, right=right):
                waiting += [(left, path, step), (right, path, step)]
            case ast.Constant(value=str(text)):
                waiting.append((ast.parse(text, mode="eval").body, path, step))
            case ast.Subscript(slice=inner) if _outer(kind) == "NotRequired":
                waiting.append((inner, path, step))
            case ast.Subscript(slice=inner) if _outer(kind) == "list":
                waiting.append((inner, _within(path, step), "an item of "))
            case ast.Subscript(slice=ast.Tuple(elts=[_, inner])) if _outer(kind) == "dict":
                waiting.append((inner, _within(path, step), "a value of "))
            case ast.Name(id=name) if name in records:
                place = step + path if step or path != call else f"what {call} gives"
                places = found.setdefault(name, set())
                is_new = place not in places and len(places) < 2  # the second makes the places of what is inside two
                places.add(place)
                if is_new:
                    inside = _within(path, step)
                    waiting += [(inner, f"{inside}[{key!r}]", "") for key, inner in records[name].types.items()]
    somewhere = f"a dict in what {call} gives"
    return {
        name: next(iter(places)) if len(places) == 1 and len(min(places)) <= _MAX_PLACE_CHARACTERS else somewhere
        for name, places in found.items()
    }


def _within(path: str, step: str) -> str:
    return f"{path}[…]" if step else path


def _outer(kind: ast.expr) -> str:
    return kind.value.id if isinstance(kind, ast.Subscript) and isinstance(kind.value, ast.Name) else ""
