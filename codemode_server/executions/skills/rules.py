"""Rules for the text that a program may save as a skill. A text is only parsed here, never executed.

A skill has no rights of its own, so these rules protect those who read and import it: its name means one file on every
file system, its text shows all that is in it, and its import does nothing but define.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.principal_names import DEVICE_NAMES
from codemode_server.executions.preflight.reading import Reading, line_of, read
from codemode_server.sandbox.importable import NEVER_IN_WORKSPACE
from codemode_server.text import clean, escaped

MAX_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
_MAX_PROBLEMS = 5
_HARMLESS = """
frozenset set tuple list dict str int float bool bytes range object compile re.compile namedtuple
collections.namedtuple timedelta datetime.timedelta Decimal Fraction Path PurePath dataclass dataclasses.dataclass field
dataclasses.field lru_cache functools.lru_cache cache functools.cache wraps functools.wraps total_ordering
functools.total_ordering contextmanager contextlib.contextmanager asynccontextmanager contextlib.asynccontextmanager
staticmethod classmethod property overload typing.overload abstractmethod abc.abstractmethod TypeVar typing.TypeVar
NewType typing.NewType
"""
_HARMLESS_CALLS = frozenset(_HARMLESS.split())
"""Functions that may be called, or used as decorators, while a skill is imported."""
_PLAIN = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Set, ast.Dict),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.expr_context, ast.keyword, ast.Lambda, ast.arguments),
    *(ast.arg, ast.Starred),
)
"""Nodes allowed in an expression at top level, beside harmless calls."""


def check_name(name: str) -> None:
    """Raises `MetaToolError` if no skill may have this name."""
    shown = escaped(name[:80])
    if not _NAME.fullmatch(name):
        raise MetaToolError(
            f"{shown!r} can't be the name of a skill: it takes a letter, then letters, digits and _, at most 60 in all"
        )
    if keyword.iskeyword(name) or name.lower() in DEVICE_NAMES:
        raise MetaToolError(f"{shown!r} is reserved and can't be the name of a skill; choose another")


def check_text(name: str, text: str, importable: frozenset[str] | None) -> None:
    """Raises `MetaToolError` with all that is wrong, a line each.

    `importable` are the modules of the sandbox, None if they are not known, as those of the user's own image.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise MetaToolError(f"a skill has at most {MAX_BYTES // 1024} KiB")
    if clean(text) != text:
        hidden = next(number for number, line in enumerate(text.split("\n"), start=1) if clean(line) != line)
        raise MetaToolError(
            f"line {hidden} has characters that nobody sees (controls, marks of direction, zero width); write them as "
            "escapes such as \\u200b"
        )
    if (reading := read(text)) is None:
        raise MetaToolError(f"skills/{name}.py is not valid Python, or too dense to be checked")
    problems = sorted(
        {
            *_look_alikes(text),
            *_run_on_import(reading.tree.body),
            *(_unreviewed(reading, importable) if importable is not None else ()),
        }
    )
    if not any(isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef) for it in reading.tree.body):
        problems.append((1, f"it defines no function; write def {name}(…)"))
    if problems:
        lines = [f"line {line}: {message}" for line, message in problems[:_MAX_PROBLEMS]]
        more = [f"… {len(problems) - _MAX_PROBLEMS} more"] if len(problems) > _MAX_PROBLEMS else []
        raise MetaToolError("\n".join([f"skills/{name}.py was not saved:", *lines, *more]))


def unreviewed_imports(reading: Reading, importable: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """The modules that a text imports, and that may come from /workspace, where any program can change them."""
    for node in reading.nodes:
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for root in (name.partition(".")[0] for name in names):
            if root not in NEVER_IN_WORKSPACE and root not in importable:
                yield line_of(node), root


def _unreviewed(reading: Reading, importable: frozenset[str]) -> Iterator[tuple[int, str]]:
    for line, module in unreviewed_imports(reading, importable):
        yield (
            line,
            f"a skill can't import {escaped(module[:60])!r}: it imports the standard library, servers and skills, "
            "since a module in /workspace can change after the user has accepted the skill; save that as a skill too",
        )


def _look_alikes(text: str) -> Iterator[tuple[int, str]]:
    """Names with letters beyond ASCII: some look like others, and Python takes some for others."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not token.string.isascii():
            yield token.start[0], f"the name {token.string[:40].encode('unicode_escape').decode()} is not plain ASCII"


def _run_on_import(body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    """The statements that do more than define something while the skill is imported."""
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _decorators(statement.decorator_list)
                defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
                yield from _not_plain([*defaults, *_annotations(statement)])
            case ast.ClassDef():
                if statement.keywords:
                    yield statement.lineno, "the keywords of a class run code on import"
                yield from _decorators(statement.decorator_list)
                yield from _not_plain(statement.bases)
                yield from _run_on_import(statement.body)
            case ast.Assign(targets=targets, value=value) if all(isinstance(it, ast.Name) for it in targets):
                yield from _not_plain([value])
            case ast.AnnAssign(target=ast.Name()):
                yield from _not_plain([statement.annotation, *([statement.value] if statement.value else [])])
            case _:
                yield (
                    line_of(statement),
                    "only imports, functions, classes and constants may stand at top level: the rest would run on "
                    "import; put it into a function",
                )


def _decorators(expressions: Iterable[ast.expr]) -> Iterator[tuple[int, str]]:
    for expression in expressions:
        is_property = isinstance(expression, ast.Attribute) and expression.attr in ("setter", "deleter", "getter")
        function = expression.func if isinstance(expression, ast.Call) else expression
        if not is_property and _dotted(function) not in _HARMLESS_CALLS:
            yield line_of(expression), f"the decorator {ast.unparse(expression)[:40]} would run on import"


def _not_plain(expressions: Iterable[ast.expr]) -> Iterator[tuple[int, str]]:
    """Places that run code while these are evaluated."""
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and _dotted(node.func) not in _HARMLESS_CALLS:
                yield line_of(node), f"{ast.unparse(node.func)[:40]}() would be called on import; call it in a function"
            elif not isinstance(node, (*_PLAIN, ast.Call)):
                yield getattr(node, "lineno", line_of(expression)), "this would run on import; put it into a function"


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    found = [it.annotation for it in every if it is not None and it.annotation is not None]
    return [*found, *([function.returns] if function.returns else [])]


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    return ""
