"""Conditions of permission rules: CEL over the arguments of a call, checked when they are compiled, bounded in time.

The expression is the person's and is trusted, the arguments are a program's and are not. CEL has no loops but macros
over lists and maps, its regular expressions take linear time, and the library stops after 10,000 iterations; so what
bounds the time is the size of the arguments, which is measured before they are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from codemode_server.support.extras import install_command
from codemode_server.support.json_values import is_nested_deeper, values_in

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_VALUES = 50_000
"""Values and keys that the arguments may have to be evaluated: about 20 ms."""
MAX_CHARACTERS = 32 * 2**20
"""Characters of their texts together: about 100 ms for a regular expression."""
MAX_DEPTH = 200
MAX_COST = 2_000_000
"""Bound on iterations of macros × size of the arguments: about 0.2 s for the worst expression."""
_MAX_ITERATIONS = 10_000
"""As the library has it."""
_CHARACTERS_PER_VALUE = 32
"""Characters that are looked at in the time that a value takes."""
_MACRO = re.compile(r"\b(?:all|exists|exists_one|map|filter)\s*\(")
_SPLIT = re.compile(r"\bsplit\s*\(")
_COMPLAINT = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


class NotEvaluable(Exception):
    """The condition can't be evaluated for these arguments; the message says why."""


class Arguments:
    """The arguments of one call for any number of conditions."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = dict(arguments)

    @cached_property
    def size(self) -> tuple[int, int]:
        """Values and characters, each counted until there are too many. Raises `NotEvaluable` if they are nested too
        deep, or a text has a NUL: the library reads texts up to there only, so it would take `acme\\0` for `acme`."""
        values = characters = 0
        for item in values_in(self._arguments, with_keys=True, most=MAX_VALUES):
            values += 1
            if isinstance(item, str):
                characters += len(item)
                if "\0" in item:
                    raise NotEvaluable("a text has a NUL character")
        if values <= MAX_VALUES and is_nested_deeper(self._arguments, MAX_DEPTH):
            raise NotEvaluable(f"the arguments are nested more than {MAX_DEPTH} deep")
        return values, characters

    @cached_property
    def activation(self) -> cel.Activation:
        """They are converted once, when the first condition needs it."""
        return _environment().Activation({"args": self._arguments})


class Condition:
    """A compiled condition, which may be evaluated in any thread."""

    def __init__(self, text: str) -> None:
        """Compile it. Raises `ValueError` if it is no condition; the message says where and why."""
        self.text = text
        self._macros = len(_MACRO.findall(text))
        self._has_split = _SPLIT.search(text) is not None
        try:
            environment = _environment()
        except ImportError:
            raise ValueError(f"needs an optional part, for conditions: {install_command('conditions')}") from None
        try:
            self._expression = environment.compile(text)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"is not a condition in CEL: {_complaint(str(error))}") from None
        if (kind := self._expression.return_type().name()) not in ("BOOL", "DYN"):
            raise ValueError(f"must be true or false, and gives {kind.lower()}")

    def holds(self, arguments: Arguments) -> bool:
        """True if the condition holds for these arguments. Raises `NotEvaluable` if a field is missing, types don't
        fit, or the arguments are too large."""
        self._check_size(arguments)
        try:
            result = self._expression.eval(arguments.activation)
            kind, value = result.type().name(), result.value()
        except (RuntimeError, ValueError, TypeError, OverflowError, KeyError) as error:
            raise NotEvaluable(_first_line(str(error))) from None
        if kind == "BOOL" and isinstance(value, bool):
            return value
        raise NotEvaluable(_first_line(str(value)) if kind == "ERROR" else f"it gives {kind.lower()}")

    def _check_size(self, arguments: Arguments) -> None:
        values, characters = arguments.size
        if values > MAX_VALUES or characters > MAX_CHARACTERS:
            raise NotEvaluable(f"the arguments have more than {MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters")
        if not self._macros:
            return
        items = values + characters if self._has_split else values
        cost = min(items**self._macros, _MAX_ITERATIONS) * (values + characters // _CHARACTERS_PER_VALUE)
        if cost > MAX_COST:
            raise NotEvaluable("the arguments are too large for `all`, `exists`, `map` and `filter`")


@cache
def _environment() -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext.ext_strings import ExtStrings

    return cel.NewEnv(variables={"args": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)}, extensions=[ExtStrings()])


def _complaint(error: str) -> str:
    """The first thing that the compiler says, without its copy of the text."""
    if (found := _COMPLAINT.search(error)) is None:
        return "it can't be read"
    line, column, what = found.groups()
    place = f"character {column}" if line == "1" else f"line {line}, character {column}"
    return f"at {place}: {what.split(' (in container')[0].split(' expecting {')[0].removesuffix(' [INVALID_ARGUMENT]')}"


def _first_line(error: str) -> str:
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", error.split("\n")[0])[:200]
