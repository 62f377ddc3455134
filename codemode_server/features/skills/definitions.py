"""Lists what a skill does on import beside defining names: its text is walked with an allow list, and nothing is run.

At top level a name stands for a part of the standard library or of a package (`re.I`), of `servers`, for a plain value
(no code of the skill runs when it is combined, formatted or hashed), for a class, or for anything else, such as a
function or a member of an `Enum`. Whatever is applied to a name is allowed for some of these kinds only.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from codemode_server.executions.preflight.reading import line_of
from codemode_server.sandbox.importable import TOOL_MODULES

_LIBRARY = "library "
"""Before the path of what a name stands for, as `library re.compile`."""
_SERVERS, _VALUE, _CLASS, _ENUM, _PROPERTY, _OTHER = "servers", "value", "class", "enum", "property", "other"
_VALUE_MAKERS = """
builtins.frozenset builtins.set builtins.tuple builtins.list builtins.dict builtins.str builtins.int builtins.float
builtins.bool builtins.bytes builtins.range builtins.object re.compile collections.namedtuple collections.Counter
collections.deque collections.OrderedDict datetime.timedelta datetime.timezone datetime.date datetime.datetime
datetime.time zoneinfo.ZoneInfo decimal.Decimal fractions.Fraction pathlib.Path pathlib.PurePath pathlib.PurePosixPath
uuid.UUID string.Template struct.Struct types.MappingProxyType types.SimpleNamespace textwrap.dedent operator.itemgetter
operator.attrgetter logging.getLogger contextvars.ContextVar itertools.count threading.Lock asyncio.Lock
asyncio.Semaphore enum.auto
"""
"""Functions that may be called on import with plain values."""
_HOLDERS = "dataclasses.field functools.partial typing.TypeVar typing.ParamSpec typing.NewType collections.defaultdict"
"""Functions that may be called with anything, as they call nothing themselves."""
_DECORATORS = """
builtins.staticmethod builtins.classmethod builtins.property dataclasses.dataclass functools.lru_cache functools.cache
functools.cached_property functools.wraps functools.total_ordering contextlib.contextmanager
contextlib.asynccontextmanager typing.overload typing.final typing.override typing.runtime_checkable abc.abstractmethod
enum.unique
"""
_DECORATES_WITH = ("dataclasses.dataclass", "functools.lru_cache")
"""Those that may be called first, with keywords that are values."""
_MAKES_VALUES, _HOLDS, _DECORATES = (frozenset(it.split()) for it in (_VALUE_MAKERS, _HOLDERS, _DECORATORS))
_MODULE_NAMES = re.compile("__(?:all|version|author|date|license)__")
_CLASS_NAMES = re.compile(
    "__(?:init|new|post_init|repr|str|format|bytes|eq|ne|lt|le|gt|ge|hash|bool|len|iter|next|reversed|contains|getitem|"
    "setitem|delitem|missing|call|enter|exit|aenter|aexit|aiter|anext|await|int|float|index|neg|abs|round|copy|deepcopy|"
    "getattr|setattr|slots|match_args|doc|[ri]?(?:add|sub|mul|matmul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift))__"
)
"""Names of classes with a meaning for Python, by which no class acts before it has an instance."""
_ENUM_NAMES = re.compile("__(?:str|format|doc)__|_ignore_")
"""The same for an `Enum`, whose members are instances."""
_ENUM_BASES = (_ENUM, *(f"{_LIBRARY}{it}" for it in ("enum.", "builtins.str", "builtins.int", "builtins.float")))
_COMBINES = (
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Slice, ast.Starred),
    *(ast.JoinedStr, ast.FormattedValue),
)
_ACTS = (
    "only imports, functions, classes and constants may stand at top level: the rest would run on import; put it into "
    "a function"
)


def actions_on_import(body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    """The statements that do more than define something while the skill is imported: line and message."""
    try:
        yield from _Scope({}, _MODULE_NAMES).problems(body)
    except RecursionError:
        yield 1, "an expression is nested too deep to be checked"


class _Acts(Exception):
    """Raised for code that would run on import."""

    def __init__(self, node: ast.AST, message: str = "this would run on import; put it into a function") -> None:
        super().__init__(message)
        self.line = line_of(node)


class _Scope:
    """A module or class, with the kinds of the names that it has so far."""

    def __init__(self, kinds: dict[str, str], special: re.Pattern[str]) -> None:
        """`special`: the names with a meaning for Python that may be bound here."""
        self.kinds = kinds
        self._special = special

    def problems(self, body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
        for statement in body:
            try:
                yield from self._define(statement)
            except _Acts as problem:
                yield problem.line, str(problem)

    def _define(self, statement: ast.stmt) -> Iterator[tuple[int, str]]:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Import(names=aliases):
                for alias in aliases:
                    path = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._bind(alias.asname or path, _imported(path), statement)
            case ast.ImportFrom(module=module, level=level, names=aliases):
                for alias in aliases:
                    kind = _OTHER if level else _imported(f"{module}.{alias.name}")
                    self._bind(alias.asname or alias.name, kind, statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(statement)
            case ast.ClassDef():
                yield from self._class(statement)
            case (
                ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple() as value)
                | ast.Assign(targets=targets, value=value)
            ) if all(isinstance(it, ast.Name) for it in targets):
                kind = self._assigned(value)
                for target in targets:
                    self._bind(ast.unparse(target), kind, statement)
            case ast.If(test=test, orelse=[]) if self._is_false_on_import(test):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                self._kind(annotation)
                if value is not None:
                    self._bind(name, self._assigned(value), statement)
            case _ if type(statement).__name__ == "TypeAlias":  # newer than the oldest supported Python
                name_node, *_, value_node = (it for it in ast.iter_child_nodes(statement) if isinstance(it, ast.expr))
                self._with_parameters(statement)._kind(value_node)
                self._bind(ast.unparse(name_node), _OTHER, statement)
            case _:
                raise _Acts(statement, _ACTS)

    def _is_false_on_import(self, test: ast.expr) -> bool:
        match test:
            case ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ):
                return True
            case ast.Name() | ast.Attribute():
                return self._kind(test) == f"{_LIBRARY}typing.TYPE_CHECKING"
            case _:
                return False

    def _assigned(self, value: ast.expr) -> str:
        """The kind of an assigned value. A member of an `Enum` is made from it, by `str(value)` if it is a text."""
        kind = self._kind(value)
        if self._special is _ENUM_NAMES and not _is_plain(kind):
            raise _Acts(value, "the members of an Enum must be constants")
        return kind

    def _bind(self, name: str, kind: str, node: ast.AST) -> None:
        if name == "*":
            raise _Acts(node, "a skill imports by name: what `*` would replace is not seen here")
        if re.fullmatch("_.*_", name) and not self._special.fullmatch(name):
            raise _Acts(node, f"{name} has a meaning for Python, by which code runs on import; use another name")
        self.kinds[name] = kind

    def _with_parameters(self, node: ast.AST) -> _Scope:
        """The scope with the type parameters of a definition, which are newer than the oldest supported Python."""
        inner = _Scope(dict(self.kinds), self._special)
        for parameter in getattr(node, "type_params", ()):
            inner.kinds[parameter.name] = _OTHER
            for expression in ast.iter_child_nodes(parameter):
                inner._kind(expression)
        return inner

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        is_property = self._decorators(function.decorator_list)
        self._defaults(function.args)
        inner, arguments = self._with_parameters(function), function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for annotation in [*(it.annotation for it in every if it is not None), function.returns]:
            if annotation is not None:
                inner._kind(annotation)
        self._bind(function.name, _PROPERTY if is_property else _OTHER, function)

    def _class(self, node: ast.ClassDef) -> Iterator[tuple[int, str]]:
        self._decorators(node.decorator_list)
        inner = self._with_parameters(node)
        kinds = [inner._kind(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
        for base, kind in zip(node.bases, kinds, strict=True):
            inner._kind(base)
            if kind in (_SERVERS, _PROPERTY, _OTHER, _VALUE, f"{_LIBRARY}string.Template"):
                raise _Acts(
                    base, f"a class can't be derived from {ast.unparse(base)[:40]} here: code could run on import"
                )
        is_enum = any(kind == _ENUM or kind.startswith(f"{_LIBRARY}enum.") for kind in kinds)
        if is_enum and not all(kind.startswith(_ENUM_BASES) for kind in kinds):
            raise _Acts(node, "beside Enum, its members may be str, int or float only: others could run code on import")
        for keyword in node.keywords:
            is_known = keyword.arg == "total" or self._kind(keyword.value) == f"{_LIBRARY}abc.ABCMeta"
            if not is_known:
                raise _Acts(keyword, "the keywords of a class run code on import")
        allowed = _ENUM_NAMES if is_enum else _CLASS_NAMES
        yield from _Scope(inner.kinds, allowed).problems(node.body)
        self._bind(node.name, _ENUM if is_enum else _CLASS, node)

    def _decorators(self, decorators: list[ast.expr]) -> bool:
        """Check them; True if they make a property."""
        paths = []
        for decorator in decorators:
            match decorator:
                case ast.Attribute(value=ast.Name(id=name), attr="setter" | "getter" | "deleter") if (
                    self.kinds.get(name) == _PROPERTY
                ):
                    paths.append("builtins.property")
                    continue
                case ast.Call(func=function):
                    is_maker = self._makes_a_decorator(decorator)
                case function:
                    is_maker = True
            paths.append(self._kind(function).removeprefix(_LIBRARY))
            if paths[-1] not in _DECORATES or not is_maker:
                raise _Acts(decorator, f"the decorator {ast.unparse(decorator)[:40]} would run on import")
        if {"builtins.property", "builtins.classmethod"} <= {*paths}:  # runs when the class is asked for it
            raise _Acts(decorators[0], "a property of the class itself would run on import")
        return "builtins.property" in paths

    def _makes_a_decorator(self, call: ast.Call) -> bool:
        """False if the call may return a function of the skill, as `cache(f)` does, which would then be called."""
        path = self._kind(call.func).removeprefix(_LIBRARY)
        kinds = {self._kind(it) for it in [*call.args, *(keyword.value for keyword in call.keywords)]}
        return path == "functools.wraps" or (path in _DECORATES_WITH and not call.args and kinds <= {_VALUE})

    def _defaults(self, arguments: ast.arguments) -> None:
        self._kinds([*arguments.defaults, *filter(None, arguments.kw_defaults)])

    def _kinds(self, expressions: Iterable[ast.expr]) -> str:
        """The kind of a container of these."""
        kinds = list(map(self._kind, expressions))
        return _VALUE if all(map(_is_plain, kinds)) else _OTHER

    def _values(self, node: ast.AST, parts: Iterable[ast.AST]) -> str:
        """For expressions that combine, format or iterate: the kind, if all parts are plain values."""
        if not all(_is_plain(self._kind(part)) for part in parts if isinstance(part, ast.expr)):
            raise _Acts(node)
        return _VALUE

    def _kind(self, node: ast.AST) -> str:
        """The kind of an expression. Raises `_Acts` if that runs code of the skill or of a tool."""
        match node:
            case ast.Constant() | ast.Name(id="__name__"):
                return _VALUE
            case ast.Name(id=name):
                return self.kinds.get(name) or (f"{_LIBRARY}builtins.{name}" if hasattr(builtins, name) else _OTHER)
            case ast.Attribute(value=value, attr=attr) if not attr.startswith("__"):
                kind = self._kind(value)
                if kind.startswith(_LIBRARY) or kind == _SERVERS:
                    return kind if kind == _SERVERS else f"{kind}.{attr}"
                if kind in (_CLASS, _ENUM):
                    return _OTHER
            case ast.Subscript(value=value, slice=index):
                kind = self._kind(value)
                if _is_plain(kind) or kind in (_CLASS, _ENUM):
                    return _VALUE if self._kind(index) == kind == _VALUE else _OTHER
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return self._kinds(items)
            case ast.Dict(keys=keys, values=values):
                merged = [value for key, value in zip(keys, values, strict=True) if key is None]
                if merged and self._kinds(merged) != _VALUE:
                    raise _Acts(node)
                return self._kinds([*filter(None, keys), *values])
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):  # as in `int | None`
                return self._kinds([left, right])
            case ast.Lambda(args=arguments):
                self._defaults(arguments)
                return _OTHER
            case ast.Call(func=function):
                given = [*node.args, *(it.value for it in node.keywords)]
                if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Constant):
                    return self._values(node, given)  # as in `"a b".split()`
                path = self._kind(function).removeprefix(_LIBRARY)
                if path in _MAKES_VALUES:
                    self._values(node, given)
                    return _CLASS if path == "collections.namedtuple" else _VALUE
                if path in _HOLDS:
                    self._kinds(given)
                    return _OTHER
                raise _Acts(node, f"{ast.unparse(function)[:40]}() would be called on import; call it in a function")
            case _ if isinstance(node, _COMBINES):
                return self._values(node, ast.iter_child_nodes(node))
        raise _Acts(node)


def _imported(path: str) -> str:
    root = path.partition(".")[0]
    if root in ("skills", "workflows", "__main__"):
        return _OTHER
    return _SERVERS if root in TOOL_MODULES else f"{_LIBRARY}{path}"


def _is_plain(kind: str) -> bool:
    return kind == _VALUE or kind.startswith(_LIBRARY)
