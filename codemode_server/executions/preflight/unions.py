"""Unions in what the type checker says. It reports each member that does not fit, though any member may come at run
time: a program is right if one of them fits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from codemode_server.catalog.schema_types import PyType
from codemode_server.executions.preflight.tool_types import ResultClass, classes_in, in_words

_SUBSCRIPTED = re.compile(r"\(subscripted object has type `([^`]+)`\)")
_QUOTED = re.compile(r"`([^`]+)`")


def classes_without(
    key: str, message: str, reported: ResultClass, known: Mapping[str, ResultClass]
) -> tuple[ResultClass, ...]:
    """The dicts that lack the key which `message` reports for `reported`; none if another member of the union may have
    it, or if the message for an earlier member says it already."""
    found = _SUBSCRIPTED.search(message)
    if found is None:
        return (reported,)
    members = _members(found[1])
    classes = [known[name] for name in members if name in known]
    is_possible = any(_may_have_keys(name) for name in members if name not in known)
    is_possible = is_possible or any(key in found.keys for found in classes)
    return tuple(classes) if not is_possible and classes[:1] == [reported] else ()


def names_a_union(message: str) -> bool:
    """Whether one of the types in it is a union with a class of a tool's result."""
    return any(" | " in text and classes_in(text) for text in _QUOTED.findall(message))


def is_member(kind: str, types: Iterable[PyType], sources: Iterable[str]) -> bool:
    """Whether a type is a member of a union in these tools' result types."""
    text = in_words(kind)
    if any(text in found.names and len(found.names) > 1 for found in types):
        return True
    return any(f"{text} | " in source or f" | {text}" in source for source in sources)


def _may_have_keys(name: str) -> bool:
    """False for what can't have a string key in any case."""
    return name.partition("[")[0] not in {"None", "list", "str", "int", "float", "bool", "_CmText"}


def _members(text: str) -> list[str]:
    """The members of a union; the text itself where the checker has left some out."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [text]
    waiting, members = [node], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp):
            waiting += [node.right, node.left]
        else:
            members.append(ast.unparse(node))
    return members
