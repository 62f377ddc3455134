"""What a program may save as a skill. A text is only parsed here, never executed.

A skill has no rights of its own, so these rules protect those who read and import it: its name means one file on every
file system, its text shows all that is in it, and its import does nothing but define.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.device_names import DEVICE_NAMES
from codemode_server.domain.errors import MetaToolError
from codemode_server.executions.preflight.reading import Reading, bound_by, line_of, read
from codemode_server.sandbox.importable import NEVER_IN_WORKSPACE, TOOL_MODULES
from codemode_server.text import clean, escaped

MAX_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
_RESERVED = DEVICE_NAMES | {"save"}
"""`skills.save` is a function."""
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
"""What may be called, or used as a decorator, while a skill is imported."""
_HARMLESS_MODULES = frozenset(
    {
        "re",
        "collections",
        "datetime",
        "decimal",
        "fractions",
        "pathlib",
        "dataclasses",
        "functools",
        "contextlib",
        "abc",
    }
    | {"typing"}
)
"""The modules that these come from, where they are no built-in functions."""
_HOOKS = frozenset({"__init_subclass__", "__set_name__", "__class_getitem__", "__mro_entries__", "__prepare__"})
"""Methods that Python calls while a class is defined or written in an annotation."""
_SANDBOX_NAMES = frozenset({"ToolError", "LimitExceeded", "__file__", "__name__", "__doc__"})


def check_name(name: str) -> None:
    """Raises `MetaToolError` if no skill may have this name."""
    shown = escaped(name[:80])
    if not _NAME.fullmatch(name):
        raise MetaToolError(
            f"{shown!r} can't be the name of a skill: it takes a letter, then letters, digits and _, at most 60 in all"
        )
    if keyword.iskeyword(name) or name.lower() in _RESERVED:
        raise MetaToolError(f"{shown!r} is reserved and can't be the name of a skill; choose another")


def check_text(name: str, text: str, catalog: Catalog, importable: frozenset[str] | None) -> None:
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
            *_Imported(reading).problems(reading.tree.body),
            *_undefined(reading, catalog),
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


class _Imported:
    """Finds what would run while a text is imported."""

    def __init__(self, reading: Reading) -> None:
        imports = [it for it in reading.nodes if isinstance(it, ast.Import | ast.ImportFrom)]
        known = {alias for it in imports for alias in it.names if _is_harmless_import(it, alias)}
        bound = {name for node in reading.nodes if node not in known for name in bound_by(node)}
        self._of_tools = {
            name
            for node in imports
            for alias in node.names
            if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0] in TOOL_MODULES
            for name in bound_by(alias)
        }
        """What is imported from servers, skills and the like."""
        self._harmless = {it for it in _HARMLESS_CALLS if it.partition(".")[0] not in bound}

    def problems(self, body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
        """The statements that do more than define something while the skill is imported."""
        for statement in body:
            if hooks := _HOOKS & _bound_at_once(statement):
                yield statement.lineno, f"{min(hooks)} runs on import"
            match statement:
                case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    pass
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield from self._calls(statement.decorator_list, are_called=True)
                    yield from self._calls([*statement.args.defaults, *filter(None, statement.args.kw_defaults)])
                    yield from self._calls(_annotations(statement))
                case ast.ClassDef():
                    if statement.keywords:
                        yield statement.lineno, "the keywords of a class run code on import"
                    yield from self._calls(statement.decorator_list, are_called=True)
                    yield from self._calls(statement.bases)
                    yield from self.problems(statement.body)
                case ast.Assign(targets=targets, value=value) if all(isinstance(it, ast.Name) for it in targets):
                    yield from self._calls([value])
                case ast.AnnAssign(target=ast.Name()):
                    yield from self._calls([statement.annotation, *([statement.value] if statement.value else [])])
                case _:
                    yield (
                        line_of(statement),
                        "only imports, functions, classes and constants may stand at top level: the rest would run on "
                        "import; put it into a function",
                    )

    def _calls(self, expressions: Iterable[ast.expr], *, are_called: bool = False) -> Iterator[tuple[int, str]]:
        """What would be called while these are evaluated; `are_called`: Python calls each itself, as a decorator."""
        for expression in expressions:
            is_property = isinstance(expression, ast.Attribute) and expression.attr in ("setter", "deleter", "getter")
            is_call = isinstance(expression, ast.Call)
            if are_called and not is_call and not is_property and _dotted(expression) not in self._harmless:
                yield line_of(expression), f"the decorator {ast.unparse(expression)[:40]} would run on import"
            for node in ast.walk(expression):
                if isinstance(node, ast.Call) and _dotted(node.func) not in self._harmless:
                    yield (
                        line_of(node),
                        f"{ast.unparse(node.func)[:40]}() would be called on import; call it in a function",
                    )
                elif operand := next((it for it in _operands(node) if it in self._of_tools), ""):
                    yield line_of(node), f"this operator would run code of {operand} on import; put it into a function"
                elif isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
                    yield line_of(node), "this would run on import; put it into a function"


def _bound_at_once(statement: ast.stmt) -> set[str]:
    """The names that a statement gives a meaning where it stands."""
    is_scope = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    nodes = [statement] if is_scope else [statement, *ast.iter_child_nodes(statement)]
    return {name for node in nodes for name in bound_by(node)}


def _operands(node: ast.AST) -> Iterator[str]:
    """The names in what an operator is applied to; a type such as `File | None` or `list[File]` has none."""
    match node:
        case ast.BinOp(op=ast.BitOr()):
            return
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.FormattedValue() | ast.comprehension() | ast.Starred():
            within: ast.AST = node
        case ast.Subscript(value=value):
            within = value
        case _:
            return
    yield from (it.id for it in ast.walk(within) if isinstance(it, ast.Name))


def _is_harmless_import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Whether an import gives a name of `_HARMLESS_CALLS` its usual meaning."""
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and node.module in _HARMLESS_MODULES and alias.asname is None
    return alias.name in _HARMLESS_MODULES and alias.asname is None


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


def _undefined(reading: Reading, catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The names that nothing in the text gives a meaning, with the import that is missing."""
    imports = [alias for node in reading.nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    if any(alias.name == "*" for alias in imports):
        yield 1, "import each name by itself in place of *"
        return
    known = {name for node in reading.nodes for name in bound_by(node)} | set(dir(builtins)) | _SANDBOX_NAMES
    known |= {it.name for node in reading.nodes for it in getattr(node, "type_params", [])}
    missing: dict[str, int] = {}
    for node in reading.nodes:
        if isinstance(node, ast.Name) and node.id not in known:
            missing.setdefault(node.id, node.lineno)
    for name, line in missing.items():
        servers = [server.name for server in catalog.servers if name in server.by_name]
        remedy = f"write: from servers.{servers[0]} import {name}" if len(servers) == 1 else "import it, or pass it in"
        yield line, f"{escaped(name[:60])!r} is not defined in this file; {remedy}"
