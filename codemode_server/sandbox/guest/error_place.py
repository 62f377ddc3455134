"""Locates the program line that raised an exception and finds the values there.

Names and subscripts of plain dicts and lists are followed; nothing of the program is called.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .calls import PendingCall
from .files import Blocks, Fields
from .modules import PROGRAM_FILES
from .value_descriptions import MAX_ITEMS, SAMPLES, UNKNOWN

_MAX_NAME = 40
_GUEST = __file__.rpartition("/")[0]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def plain(value: Any) -> Any:
    """A call that has its answer is that answer."""
    if type(value) is PendingCall:
        future = value._future
        return future.result() if future.done() and future.exception() is None else UNKNOWN
    return value


class Place:
    """The place in the program where it failed, and the values there."""

    def __init__(self, error: BaseException) -> None:
        self._frame: types.FrameType | None = None
        self._position: tuple[int | None, ...] = ()
        self._tree = ast.Module(body=[], type_ignores=[])
        trace, last = error.__traceback__, None
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file in PROGRAM_FILES:
                last = trace
            elif not file.startswith(_GUEST):
                last = None  # raised within a library: what the program's line worked on says little
            trace = trace.tb_next
        if last is None:
            return
        self._frame = last.tb_frame
        self._position = next(islice(self._frame.f_code.co_positions(), last.tb_lasti // 2, None), ())
        self._tree = ast.parse("".join(linecache.getlines(self._frame.f_code.co_filename)))

    @property
    def text(self) -> str:
        """Source of the expression that is subscripted or whose attribute is read; empty where that is long."""
        node = self._node()
        text = ast.unparse(node.value) if node is not None else ""
        return text if len(text) <= _MAX_NAME else ""

    def subscripted(self, lacking: Any = UNKNOWN) -> Any:
        """The object whose item was asked for."""
        node = self._node()
        return self.value(node.value, lacking) if node is not None else UNKNOWN

    def key(self) -> Any:
        node = self._node()
        return self.value(node.slice) if isinstance(node, ast.Subscript) else UNKNOWN

    def names(self) -> list[str]:
        """The names that were defined there."""
        if self._frame is None:
            return []
        names = [*self._frame.f_locals, *self._frame.f_globals]
        return [name for name in names if isinstance(name, str) and not name.startswith("__")]

    def _node(self) -> ast.Subscript | ast.Attribute | None:
        """The expression that is written exactly where it failed."""
        for node in ast.walk(self._tree):
            if isinstance(node, (ast.Subscript, ast.Attribute)) and _position(node) == self._position:
                return node
        return None

    def value(self, node: ast.expr, lacking: Any = UNKNOWN) -> Any:
        """Value of an expression, as far as it is known without running any of it."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Await):
            return self.value(node.value, lacking)
        if isinstance(node, ast.Name):
            return self._named(node, lacking)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            return SAMPLES.get(node.func.id if isinstance(node.func, ast.Name) else node.func.attr, UNKNOWN)
        if isinstance(node, ast.Subscript):
            base, key = self.value(node.value), self.value(node.slice)
            if type(base) in (dict, list, tuple, Fields, Blocks) and isinstance(key, (str, int)):
                try:
                    return plain(base[key])
                except (LookupError, TypeError):
                    return UNKNOWN
        return UNKNOWN

    def _named(self, node: ast.Name, lacking: Any) -> Any:
        if self._frame is None:
            return UNKNOWN
        if self._frame.f_code.co_name[0] != "<" or self._frame.f_code.co_name == "<module>":
            # The variable of a comprehension that runs within its function is none of the function's.
            for part in self._around(node):
                if isinstance(part.target, ast.Name) and part.target.id == node.id:
                    return _some_item(self.value(part.iter), lacking)
        for names in (self._frame.f_locals, self._frame.f_globals):
            if node.id in names:
                return plain(names[node.id])
        return UNKNOWN

    def _around(self, inner: ast.AST) -> Iterator[ast.comprehension]:
        for node in ast.walk(self._tree):
            if isinstance(node, _COMPREHENSIONS) and any(part is inner for part in ast.walk(node)):
                yield from node.generators


def _some_item(items: Any, lacking: Any) -> Any:
    """An item of a list, one that lacks the key if there is such a one."""
    if type(items) not in (list, tuple):
        return UNKNOWN
    return next((it for it in islice(items, MAX_ITEMS) if not (isinstance(it, dict) and lacking in it)), UNKNOWN)


def _position(node: ast.expr) -> tuple[int | None, ...]:
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
