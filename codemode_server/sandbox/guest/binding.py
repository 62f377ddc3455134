"""Which argument of a call goes to which parameter of a tool; pure, for the guest's stubs and the host's static check.

A tool is called by keyword under its Python-safe parameter names (the tool's own names pass too), by position in order,
or with one dict of all arguments. `...` stands for an argument that is not given. The guest binds values, the static
check binds the expressions that give them, so what both can't know alike is a parameter here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .scopes import last_name
from .similar_names import similar_name

_Value = TypeVar("_Value")

MAP_COLLECTS_ERRORS = (
    ".map() has no return_exceptions, it collects errors itself: the result of a failed item is None, and the errors "
    "are in .errors of what .map() gives"
)
MAP_TAKES_A_LIST = ".map() takes a list of items and makes a call for each"
_MAP_PARAMETERS = ("items", "[concurrency]")
"""Parameters of `.map()` beside those of the tool."""
_MAX_NAMES = 30
_MAX_PROBLEMS = 5
_OBJECT_TYPES = frozenset({"Any", "dict", "Dict", "object", "Mapping", "MutableMapping"})
_WRAPPERS = frozenset({"Optional", "Union", "Annotated", "NotRequired", "Required"})


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool's stub."""

    tool: str
    names: tuple[str, ...]
    required: tuple[str, ...]
    is_open: bool
    """True if the tool takes any keywords."""
    takes_objects: Callable[[str], bool]
    """Predicate: the parameter may be a dict, so that one dict need not be all arguments."""
    python_names: Mapping[str, str] = field(default_factory=dict)
    """By the tool's own name, for the parameters whose names differ."""

    def usage(self, form: str = "") -> str:
        """Describes the parameters of the tool, or of a form of it (`.map`)."""
        own = _MAP_PARAMETERS if form == ".map" else ()
        if not self.names and not own:
            return "It takes any keywords." if self.is_open else "It takes no arguments."
        shown = [name if name in self.required else f"[{name}]" for name in self.names[:_MAX_NAMES]]
        return f"It takes {', '.join([*own, *shown])}{', …' if len(self.names) > _MAX_NAMES else ''}."


def mapping_items(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """The items of a value that may be all arguments; None for any other value."""
    return dict(value).items() if isinstance(value, Mapping) else None


def _is_not_ellipsis(value: Any) -> bool:
    return value is not ...


@dataclass(frozen=True, slots=True)
class Binding(Generic[_Value]):
    given: dict[str, _Value]
    """By Python name, those that fit."""
    problem: str = ""
    """All that is wrong with the others, and what the tool takes; empty if nothing is."""


def bind(
    signature: Signature,
    args: Sequence[Any],
    keywords: Iterable[tuple[str, Any]],
    *,
    names: Sequence[str] | None = None,
    required: Collection[str] = (),
) -> dict[str, Any]:
    """The values of a call by Python name; parameters as those of `binding_of`. Raises `TypeError` if arguments do not
    fit; the message names all that is wrong, and what the tool takes."""
    return _fitting(binding_of(signature, args, keywords, names=names, required=required))


def _fitting(binding: Binding[_Value]) -> dict[str, _Value]:
    if binding.problem:
        raise TypeError(binding.problem)
    return binding.given


def binding_of(
    signature: Signature,
    args: Sequence[_Value],
    keywords: Iterable[tuple[str, _Value]],
    *,
    names: Sequence[str] | None = None,
    required: Collection[str] = (),
    form: str = "",
    items_of: Callable[[_Value], Iterable[tuple[str, _Value]] | None] = mapping_items,
    is_given: Callable[[_Value], bool] = _is_not_ellipsis,
) -> Binding[_Value]:
    """Which argument goes to which parameter; whether all required ones are there is for `check_required`.

    `names` are the parameters that positions stand for (default: all). Those of `required` that are missing are named
    beside other problems. `items_of` takes a dict apart.
    """
    names = signature.names if names is None else names
    pairs = list(keywords)
    if len(args) == 1 and not pairs and (items := items_of(args[0])) is not None:
        given = list(items)
        if _are_all_arguments(signature, names, [key for key, _ in given]):
            args, pairs = (), given
    problems: list[str] = []
    if len(args) > len(names):
        problems.append(f"takes {len(names)} argument{'s' * (len(names) != 1)}, not {len(args)}.")
    bound = dict(zip(names, args, strict=False))
    unknown: list[str] = []
    for key, value in pairs:
        name = signature.python_names.get(key, key)
        if name in bound:
            problems.append(f"got argument {name!r} twice.")
        elif name in signature.names or signature.is_open:
            bound[name] = value
        else:
            unknown.append(key)
    bound = {name: value for name, value in bound.items() if is_given(value)}
    if not problems and not unknown:
        return Binding(bound)
    problems += _of_names(signature, unknown, bound, required)
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"has {len(problems) - _MAX_PROBLEMS} more mistakes."]
    return Binding(bound, f"{signature.tool}{form}() {' It '.join(problems)} {signature.usage(form)}")


def _of_names(
    signature: Signature, unknown: Sequence[str], bound: Collection[str], required: Collection[str]
) -> list[str]:
    """The problems with names that the tool does not have, each with the name that was meant, and what is missing
    besides."""
    problems: list[str] = []
    given = set(bound)
    for key in unknown:
        # Hostile names are not worth a search each.
        meant = _meant(signature, key, given) if len(problems) < _MAX_PROBLEMS else None
        given |= {meant} if meant else set()
        problems.append(f"has no argument {key!r}" + (f"; did you mean {meant!r}?" if meant else "."))
    missing = _missing(required, given)
    return [*problems, missing] if missing else problems


def bind_shared(
    signature: Signature,
    keywords: Iterable[tuple[str, _Value]],
    *,
    is_given: Callable[[_Value], bool] = _is_not_ellipsis,
) -> dict[str, _Value]:
    """The arguments that all calls of a `.map()` share; raises TypeError as `bind`."""
    pairs = list(keywords)
    if any(key == "return_exceptions" for key, _ in pairs) and not (
        signature.is_open or "return_exceptions" in signature.names
    ):
        raise TypeError(f"{signature.tool}{MAP_COLLECTS_ERRORS}")
    return _fitting(binding_of(signature, (), pairs, form=".map", is_given=is_given))


def check_required(signature: Signature, bound: Collection[str], *, besides: str = "") -> None:
    """Raises TypeError if a required argument is missing, other than `besides`."""
    if problem := missing_arguments(signature, {*bound, besides}):
        raise TypeError(problem)


def missing_arguments(signature: Signature, given: Collection[str]) -> str:
    """Which required arguments are missing, and what the tool takes; empty if none is."""
    missing = _missing(signature.required, given)
    return f"{signature.tool}() {missing} {signature.usage()}" if missing else ""


def _missing(required: Collection[str], given: Collection[str]) -> str:
    missing = [name for name in required if name not in given]
    return f"is missing {', '.join(map(repr, missing))}." if missing else ""


def type_takes_objects(annotation: ast.expr, is_class: Callable[[str], bool]) -> bool:
    """True if a type admits a dict; `is_class` says which names stand for the stub's own dict types."""
    match annotation:
        case ast.BinOp(left=left, right=right):
            return type_takes_objects(left, is_class) or type_takes_objects(right, is_class)
        case ast.Constant(value=str(text)):
            return type_takes_objects(ast.parse(text, mode="eval").body, is_class)
        case ast.Subscript(value=generic, slice=inner):
            name = last_name(generic)
            if name not in _WRAPPERS:
                return name in _OBJECT_TYPES
            members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return any(type_takes_objects(member, is_class) for member in members)
    name = last_name(annotation)
    return name in _OBJECT_TYPES or is_class(name)


def _are_all_arguments(signature: Signature, names: Sequence[str], keys: Sequence[str]) -> bool:
    """True if a single dict with these keys is all arguments, rather than the first of them."""
    if not names or not signature.takes_objects(names[0]):
        return True
    known = {*signature.names, *signature.python_names}
    return bool(keys) and all(key in known for key in keys)


def _meant(signature: Signature, name: str, given: Collection[str]) -> str | None:
    free = [known for known in signature.names if known not in given]
    return similar_name(name, free, preferred=[known for known in free if known in signature.required])
