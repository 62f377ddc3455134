"""The one likely mend of a failed program, told from what its failing line worked on: the keys that were there …

It is only looked at: names and subscripts of plain dicts and lists are followed, nothing of the program is called.
Where nothing certain can be said, nothing is.
"""

from __future__ import annotations

import ast
import difflib
import json
import linecache
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .calls import PendingCall
from .files import File
from .modules import PROGRAM_FILES
from .seen import SEEN

_MAX_HINT = 500
_MAX_KEYS = 14
_MAX_KEY = 40
_MAX_ITEMS = 1_000
_GUEST = __file__.rpartition("/")[0]
_UNKNOWN = object()
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def mend(error: BaseException) -> str:
    """What would most likely mend it, in a sentence; empty where that can't be told."""
    try:
        return _mend(error)[:_MAX_HINT]
    except Exception:  # noqa: BLE001 - values of the program may do anything when they are looked at
        return ""


def shape(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, dict):
        return f"a dict with {_keys(value)}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        first = next((item for item in islice(value, _MAX_ITEMS) if isinstance(item, dict)), None)
        kind = "list" if isinstance(value, list) else "tuple"
        what = f"a {kind} of {len(value)} items" if value else f"an empty {kind}"
        return what if first is None else f"{what}, which are dicts with {_keys(first)}"
    if isinstance(value, str):
        whole = f"the text {value!r}"
        return whole if len(value) <= 60 else f"a text of {len(value)} characters that begins {value[:60]!r}"
    if isinstance(value, File):
        return "a File: .data (bytes), .mime_type, .size, .name, .text(), .save(path)"
    return "None" if value is None else f"of type {type(value).__name__}"


def _mend(error: BaseException) -> str:
    message = str(error)
    if isinstance(error, KeyError) and error.args:
        return _of_key(error.args[0], _Place(error))
    if isinstance(error, AttributeError):
        return _of_attribute(getattr(error, "name", None), getattr(error, "obj", _UNKNOWN))
    if isinstance(error, IndexError):
        value = _Place(error).subscripted()
        return f"it is {shape(value)}" if value is not _UNKNOWN else ""
    if isinstance(error, json.JSONDecodeError):
        return _of_json(error.doc)
    return _of_type(message, _Place(error)) if isinstance(error, TypeError) else ""


def _of_key(key: Any, place: _Place) -> str:
    value = place.subscripted(lacking=key)
    if isinstance(value, dict) and key not in value:
        near = _nearest(key, value)
        return f"{place.text or 'it'} is {shape(value)}{f'; did you mean {near!r}?' if near else ''}"
    return ""


def _of_attribute(name: str | None, value: Any) -> str:
    if value is _UNKNOWN or name is None or name.startswith("__"):
        return ""
    if isinstance(value, PendingCall):
        value = _plain(value)
    if isinstance(value, types.CoroutineType):
        return "await it first"
    if isinstance(value, dict):
        if name in value:
            return f'results are plain dicts: write ["{name}"] for .{name}'
        near = _nearest(name, value)
        return f"it is {shape(value)}{f': write [{near!r}]' if near else '; its keys are read with [...]'}"
    if isinstance(value, (list, tuple, str, File)) or value is None:
        return f"it is {shape(value)}"
    return ""


def _of_json(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    if not text.strip():
        return "the text is empty"
    return f"results of tools are parsed already; this is {shape(text)}, which is no JSON"


def _of_type(message: str, place: _Place) -> str:
    if "coroutine" in message and "await" not in message:
        return "a coroutine has no value before it is awaited: write await before the call"
    value = place.subscripted()
    if value is _UNKNOWN:
        return ""
    name = place.text or "it"
    if message.startswith(("list indices", "tuple indices")):
        key = place.key()
        first = next((item for item in islice(value, _MAX_ITEMS) if isinstance(item, dict)), None)
        way = f"; write [0][{key!r}], or loop over it" if first is not None and key in first else "; use it as it is"
        return f"{name} is {shape(value)}{way}"
    if message.startswith("string indices") or "not subscriptable" in message:
        return f"{name} is {shape(value)}"
    return ""


def _keys(value: dict[Any, Any]) -> str:
    shown = ", ".join(repr(_key(key)) for key in islice(value, _MAX_KEYS))
    more = len(value) - _MAX_KEYS
    return f"the keys {shown}{f' and {more} more' if more > 0 else ''}"


def _key(key: Any) -> Any:
    return f"{key[:_MAX_KEY]}…" if isinstance(key, str) and len(key) > _MAX_KEY else key


def _nearest(wanted: Any, keys: Iterable[Any]) -> str | None:
    if not isinstance(wanted, str):
        return None
    known = [key for key in islice(keys, 500) if isinstance(key, str) and len(key) <= 200]
    folded = {key.casefold().replace("_", "").replace("-", "").replace(" ", ""): key for key in reversed(known)}
    same = folded.get(wanted.casefold().replace("_", "").replace("-", "").replace(" ", ""))
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.6)
    return same or (near[0] if near else None)


def _plain(value: Any) -> Any:
    """A call that has its answer is that answer."""
    if type(value) is PendingCall:
        future = value._future
        return future.result() if future.done() and future.exception() is None else _UNKNOWN
    return value


class _Place:
    """Where in the program it failed, and what stood there."""

    def __init__(self, error: BaseException) -> None:
        self._frame: types.FrameType | None = None
        self._position: tuple[int | None, ...] = ()
        self._tree: ast.Module | None = None
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
        """What is subscripted, as it is written; empty where that is long."""
        node = self._node()
        written = ast.unparse(node.value) if node is not None else ""
        return written if len(written) <= _MAX_KEY else ""

    def subscripted(self, lacking: Any = _UNKNOWN) -> Any:
        """The object whose item was asked for."""
        node = self._node()
        return self._value(node.value, lacking) if node is not None else _UNKNOWN

    def key(self) -> Any:
        node = self._node()
        return self._value(node.slice) if node is not None else _UNKNOWN

    def _node(self) -> ast.Subscript | None:
        if self._tree is None or not self._position:
            return None
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Subscript) and _position(node) == self._position:
                return node
        return None

    def _value(self, node: ast.expr, lacking: Any = _UNKNOWN) -> Any:
        """What an expression stands for, as far as it can be told without running any of it."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Await):
            return self._value(node.value, lacking)
        if isinstance(node, ast.Name):
            return self._named(node, lacking)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            return SEEN.get(node.func.id if isinstance(node.func, ast.Name) else node.func.attr, _UNKNOWN)
        if isinstance(node, ast.Subscript):
            base, key = self._value(node.value), self._value(node.slice)
            if type(base) in (dict, list, tuple) and isinstance(key, (str, int)):
                try:
                    return _plain(base[key])
                except (LookupError, TypeError):
                    return _UNKNOWN
        return _UNKNOWN

    def _named(self, node: ast.Name, lacking: Any) -> Any:
        if self._frame is None:
            return _UNKNOWN
        if self._frame.f_code.co_name[0] != "<" or self._frame.f_code.co_name == "<module>":
            # The variable of a comprehension that runs within its function is none of the function's.
            for part in self._around(node):
                if isinstance(part.target, ast.Name) and part.target.id == node.id:
                    return _some_item(self._value(part.iter), lacking)
        for names in (self._frame.f_locals, self._frame.f_globals):
            if node.id in names:
                return _plain(names[node.id])
        return _UNKNOWN

    def _around(self, inner: ast.AST) -> Iterator[ast.comprehension]:
        for node in ast.walk(self._tree) if self._tree is not None else ():
            if isinstance(node, _COMPREHENSIONS) and any(part is inner for part in ast.walk(node)):
                yield from node.generators


def _some_item(items: Any, lacking: Any) -> Any:
    """An item of a list, one that lacks the key if there is such a one."""
    if type(items) not in (list, tuple):
        return _UNKNOWN
    return next((it for it in islice(items, _MAX_ITEMS) if not (isinstance(it, dict) and lacking in it)), _UNKNOWN)


def _position(node: ast.expr) -> tuple[int | None, ...]:
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
