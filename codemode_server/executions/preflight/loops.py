"""Results that are used as something else, which runs and gives a wrong answer: a loop over a dict gets its keys, one
over a text its characters, and `in` tests the keys of a dict.

Reported is only what the use shows not to be meant: programs do loop over keys, and count characters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from codemode_server.executions.preflight.call_checks import Bound
from codemode_server.executions.preflight.name_checks import Names
from codemode_server.executions.preflight.reading import Reading
from codemode_server.executions.preflight.result_forms import Found, Results

Loop = ast.For | ast.AsyncFor | ast.comprehension
_MAX_NODES = 2_000
"""Maximum number of nodes of one loop; larger ones are skipped, since nested loops are read again."""
_MAX_USES = 30
_WORD = re.compile(r"[$@]?[A-Za-z_][\w-]*")
_NAME_OF_ITEM = re.compile(r"(?:.*_)?(?:line|row|record)")
"""A loop's variable of such a name is meant to be neither a key nor a character."""
_NAME_OF_KEY = re.compile(r"(?:.*_)?(?:k|key|field|attr)")
_OF_LINES = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})
_OF_PARTS = frozenset({"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count"})
_PASSING_ON = frozenset({"enumerate", "sorted", "reversed", "list"})


def misread_results(reading: Reading, names: Names, calls: list[Bound]) -> Iterator[tuple[ast.AST, str]]:
    """Each wrong use of a result, and what to write instead."""
    results = Results(reading, names, calls)
    for node, found in islice(_uses(reading, results), _MAX_USES):
        if isinstance(node, Loop):
            if _is_misread(node, found, reading):
                lines = ".splitlines()" if found.form.content == "text" else ""
                message = f"so this loop gets its {_items(found)}; loop over {found.content}{lines}"
                yield node.iter, f"{found.description}, {message}"
        elif isinstance(node, ast.Compare):
            yield from _membership(node, found, reading)
        elif found.form.content == "text" and (reader := _csv_reader(node, reading)):
            message = f"so {reader} gets its {_items(found)}; write {reader}({found.content}.splitlines())"
            yield node, f"{found.description}, {message}"


def _uses(reading: Reading, results: Results) -> Iterator[tuple[Loop | ast.Compare | ast.Call, Found]]:
    """The loops, tests and calls that use a result, each with that result."""
    for node in reading.nodes:
        match node:
            case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source):
                found = results.of(_passed_on(source))
            case ast.Compare(comparators=[source]) | ast.Call(args=[source, *_]):
                found = results.of(source)
            case _:
                continue
        if found is not None:
            yield node, found


def _items(found: Found) -> str:
    return "characters" if found.form.key is None else "keys"


def _membership(node: ast.Compare, found: Found, reading: Reading) -> Iterator[tuple[ast.AST, str]]:
    """`"total: 5" in result`, where the result is a dict that holds a text."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn() as operator]):
            if found.form.content == "text" and found.form.key and not _may_be_key(node.left, found, reading):
                word = "in" if isinstance(operator, ast.In) else "not in"
                yield node, f"{found.description}, so this tests its keys; write … {word} {found.content}"


def _may_be_key(node: ast.expr, found: Found, reading: Reading) -> bool:
    """Whether a program may test for a key: also for one that is not declared, such as "error"."""
    if any(_asks_for(other, node) for other in reading.nodes):
        return True
    match node:
        case ast.Constant(value=str(text)):
            is_word = _WORD.fullmatch(text) is not None and not text.isupper()
            return text == found.form.key or (is_word and (not found.form.is_closed or "err" in text.lower()))
        case ast.Name(id=name):
            return not (found.form.is_closed or found.is_call) or _NAME_OF_KEY.fullmatch(name) is not None
    return True


def _asks_for(node: ast.AST, key: ast.expr) -> bool:
    """`x[key]`, `x.get(key)`, `x.pop(key)`."""
    match node:
        case (
            ast.Subscript(slice=asked)
            | ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[asked, *_])
        ):
            is_same_name = isinstance(key, ast.Name) and _name(asked) == key.id
            return is_same_name or (isinstance(key, ast.Constant) and _constant(asked) == key.value)
    return False


def _is_misread(loop: Loop, found: Found, reading: Reading) -> bool:
    """Whether the use of what a loop gets shows that neither keys nor characters were meant.

    In a loop over the call itself keys are of no use, since the values are out of reach.
    """
    is_dict = found.form.key is not None
    target = loop.target
    if isinstance(loop.iter, ast.Call) and _name(loop.iter.func) == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[-1]
    if not isinstance(target, ast.Name):
        return is_dict and found.is_call
    whole = reading.parents[loop] if isinstance(loop, ast.comprehension) else loop
    nodes = list(islice(ast.walk(whole), _MAX_NODES + 1))
    if len(nodes) > _MAX_NODES:
        return False
    if is_dict and any(_is_asked_for_key(node, target.id) for node in nodes):
        return True
    if is_dict and (_NAME_OF_KEY.fullmatch(target.id) or _is_key_of(found, target.id, nodes)):
        return False
    is_item = found.form.content != "objects" and _NAME_OF_ITEM.fullmatch(target.id) is not None
    if is_item or (is_dict and found.is_call):
        return True
    stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    is_bound_once = [node.id for node in stored].count(target.id) == 1
    return found.form.content == "text" and is_bound_once and any(_is_line(node, target.id) for node in nodes)


def _is_key_of(found: Found, name: str, nodes: list[ast.AST]) -> bool:
    """Whether the dict that is looped over is asked for what the loop gets."""
    wanted = ast.Name(name, ast.Load())
    asked = (node.func if isinstance(node, ast.Call) else node for node in nodes if _asks_for(node, wanted))
    return any(isinstance(it, (ast.Subscript, ast.Attribute)) and _name(it.value) == found.written for it in asked)


def _is_line(node: ast.AST, name: str) -> bool:
    """Whether a name is used as only a text of several characters is."""
    match node:
        case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn()], comparators=[whole]):
            return _name(whole) == name and _is_part(text)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=method), args=arguments):
            if found != name:
                return False
            parts = arguments[0].elts if arguments and isinstance(arguments[0], ast.Tuple) else arguments[:1]
            are_long = bool(parts) and all(_is_part(_constant(part)) for part in parts)
            return method in _OF_LINES or (method in _OF_PARTS and are_long)
    return False


def _is_part(text: object) -> bool:
    """Whether a text is too long to be in a character."""
    return isinstance(text, str) and len(text) > 1


def _is_asked_for_key(node: ast.AST, name: str) -> bool:
    """Whether a name is asked for a key, which no key of a dict has."""
    match node:
        case ast.Subscript(value=ast.Name(id=found), slice=ast.Constant(value=str())):
            return found == name
        case ast.Attribute(value=ast.Name(id=found), attr=attribute):
            return found == name and not hasattr("", attribute)
    return False


def _csv_reader(node: ast.Call, reading: Reading) -> str:
    """`csv.reader` or `csv.DictReader` as it is written here; empty for any other call."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="csv"), attr="reader" | "DictReader" as name):
            return f"csv.{name}"
        case ast.Name(id="reader" | "DictReader" as name) if any(
            isinstance(other, ast.ImportFrom) and other.module == "csv" for other in reading.nodes
        ):
            return name
    return ""


def _passed_on(node: ast.expr) -> ast.expr:
    """What `enumerate(…)` and the like loop over."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _PASSING_ON:
            return inner
    return node


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None
