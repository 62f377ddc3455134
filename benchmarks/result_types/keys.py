"""Which keys of results a program uses (found by running it), and which of them a stub's types tell of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TRACKING = Path(__file__).with_name("tracking.py").read_text()
_EACH = "[]"


@dataclass(frozen=True)
class Use:
    """A key of a dict in a tool's result: one that a program asks for by name, or might ask for."""

    tool: str
    """As in `server.tool`, by Python names."""
    path: tuple[str, ...]
    """From the result to the dict: keys, and "[]" for an item of a list."""
    key: str
    is_in_query: bool
    """Whether the program's own SQL names it, so that no type need tell."""

    def __str__(self) -> str:
        return ".".join([self.tool, *self.path, self.key]).replace(f".{_EACH}", _EACH)


@dataclass(frozen=True)
class Tracked:
    """What was seen of one program."""

    uses: tuple[Use, ...]
    present: tuple[Use, ...]
    """All keys that were there."""
    first_calls: dict[str, dict[str, Any]]
    """Tool → the arguments of its first call."""


def imported_tools(code: str) -> list[str]:
    """The tools that a program imports, as `server.tool`, in order."""
    return [
        f"{node.module.removeprefix('servers.')}.{alias.name}"
        for node in ast.parse(code).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("servers.")
        for alias in node.names
    ]


def tracking_program(code: str) -> str:
    """The program, its tools replaced by tracked ones, with what they saw as its value."""
    body: list[ast.stmt] = []
    for node in ast.parse(code).body:
        body.append(node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("servers."):
            server = node.module.removeprefix("servers.")
            for alias in node.names:
                # By the namespace, so that a checker of types takes the name for what the stub says.
                replace = f"globals()[{alias.name!r}] = tracked_tool({alias.name}, {f'{server}.{alias.name}'!r})"
                body.extend(ast.parse(replace).body)
    seen = "{'uses': tracked_uses, 'present': tracked_present, 'calls': tracked_calls}"
    return "\n".join([_TRACKING, *(ast.unparse(node) for node in body), seen])


def tracked(code: str, seen: dict[str, Any]) -> Tracked:
    """What `tracking_program` gave. Keys that the program did not spell are data, not names of fields."""
    spelt = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
    uses = [use for use in _as_uses(seen["uses"]) if use.key in spelt]
    first_calls: dict[str, dict[str, Any]] = {}
    for tool, arguments in seen["calls"]:
        first_calls.setdefault(tool, arguments)
    return Tracked(tuple(uses), tuple(_as_uses(seen["present"])), first_calls)


def _as_uses(noted: list[tuple[str, list[str], str, bool]]) -> list[Use]:
    return list(dict.fromkeys(Use(tool, tuple(path), key, in_query) for tool, path, key, in_query in noted))


class StubTypes:
    """The types in a stub's source, as a reader follows them from the result down."""

    def __init__(self, source: str, name: str) -> None:
        tree = ast.parse(source)
        self._classes = dict(_typed_dicts(tree))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        self._returned = [node.returns for node in functions if node.returns is not None]

    @property
    def tells_form(self) -> bool:
        """Whether anything is said of the result at all."""
        return any(not (isinstance(one, ast.Name) and one.id == "Any") for one in self._returned)

    def tells(self, path: tuple[str, ...], key: str) -> bool:
        """Whether there is a dict at `path` that is said to have this key, always or at times."""
        return any(key in self._fields(found) for found in self._at(path))

    def is_data(self, path: tuple[str, ...], key: str) -> bool:
        """Whether the key, or one on the way to it, is the name of no field: of a dict with any keys."""
        steps = [*path, key]
        return any(
            step != _EACH and self._is_map(tuple(steps[:depth])) and not self.tells(tuple(steps[:depth]), step)
            for depth, step in enumerate(steps)
        )

    def _is_map(self, path: tuple[str, ...]) -> bool:
        return any(isinstance(it, ast.Subscript) and ast.unparse(it.value) == "dict" for it in self._at(path))

    def _at(self, path: tuple[str, ...]) -> list[ast.expr]:
        found = [member for returned in self._returned for member in self._members(returned)]
        for part in path:
            found = [inner for outer in found for inner in self._into(outer, part)]
        return found

    def _into(self, annotation: ast.expr, part: str) -> Iterator[ast.expr]:
        if part in (fields := self._fields(annotation)):
            yield from self._members(fields[part])
        match annotation:
            case ast.Subscript(value=ast.Name(id="list"), slice=inner) if part == _EACH:
                yield from self._members(inner)
            case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])) if part != _EACH:
                yield from self._members(inner)

    def _members(self, annotation: ast.expr) -> Iterator[ast.expr]:
        """The members of a union, without what only marks them."""
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self._members(left)
                yield from self._members(right)
            case ast.Subscript(value=ast.Name(id="NotRequired"), slice=inner):
                yield from self._members(inner)
            case ast.Constant(value=str(text)):
                yield from self._members(ast.parse(text, mode="eval").body)
            case _:
                yield annotation

    def _fields(self, annotation: ast.expr) -> dict[str, ast.expr]:
        return self._classes.get(annotation.id, {}) if isinstance(annotation, ast.Name) else {}


def _typed_dicts(tree: ast.Module) -> Iterator[tuple[str, dict[str, ast.expr]]]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name, keywords=keywords):
                rows = [(row.target, row.annotation) for row in node.body if isinstance(row, ast.AnnAssign)]
                fields = {target.id: annotation for target, annotation in rows if isinstance(target, ast.Name)}
                yield name, _marked(fields, keywords)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(args=[_, ast.Dict(keys, values)], keywords=keywords)
            ):
                named = zip(keys, values, strict=True)
                fields = {str(key.value): value for key, value in named if isinstance(key, ast.Constant)}
                yield name, _marked(fields, keywords)


def _marked(fields: dict[str, ast.expr], keywords: list[ast.keyword]) -> dict[str, ast.expr]:
    """With `total=False`, each field marked as one that need not be there."""
    if not any(keyword.arg == "total" for keyword in keywords):
        return fields
    mark = ast.Name("NotRequired")
    return {key: ast.Subscript(mark, value) for key, value in fields.items()}
