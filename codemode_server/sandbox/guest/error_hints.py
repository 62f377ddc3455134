"""The likely fix of a failed program: what to use in place of what a sandbox lacks, or what the values that the failing
line used say, such as the keys of a dict.

Names and subscripts of plain dicts and lists are followed; nothing of the program is called. Without certainty there
is no hint.
"""

from __future__ import annotations

import ast
import builtins
import errno
import functools
import json
import linecache
import os
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from concurrent.futures import Future
from difflib import get_close_matches
from itertools import islice
from typing import Any

from . import advice
from .calls import PendingCall
from .files import Blocks, Fields, File
from .modules import PROGRAM_FILES
from .similar_names import similar_name
from .stubs import Stub
from .tables import kinds_of
from .value_descriptions import MAX_ITEMS, MAX_KEYS, SAMPLES, UNKNOWN, listed, nearest_key, shape, way_to_read

_MAX_HINT = 500
_MAX_NAME = 40
_GUEST = __file__.rpartition("/")[0]
_OF_JSON = {"true": "True", "false": "False", "null": "None", "none": "None", "undefined": "None"}
_ENVELOPE = ("content", "structuredContent", "structured_content", "data", "result", "isError", "is_error")
"""Members of results in MCP's clients."""
_OF_LIBRARIES = {
    "bs4.FeatureNotFound": 'write BeautifulSoup(text, "html.parser"), which needs no other package',
    "jinja2.TemplateNotFound": f"jinja2.DictLoader takes templates as texts; {advice.NO_HOST_FILES}",
}
"""By the packages and names of exceptions."""
_FILE_FOR_A_LIBRARY = re.compile(r"\bnot File\b|'codemode\.File'")
_FOR_A_LIBRARY = "a library takes io.BytesIO(file.data), or file.text"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def mend(error: BaseException) -> str:
    """The most likely fix, in a sentence; empty if it is not known."""
    try:
        return _mend(error)[:_MAX_HINT]
    except Exception:  # noqa: BLE001 - values of the program may do anything when they are looked at
        return ""


def _mend(error: BaseException) -> str:
    message, place = str(error), Place(error)
    if isinstance(error, SyntaxError):
        is_await = "outside async function" in message
        return "write `async def`, or call without `await`: plain functions get the result itself" if is_await else ""
    if isinstance(error, NameError):
        return _of_name(error, place)
    if hint := _of_a_library(type(error)) or _of_the_sandbox(error):
        return hint
    if (table := _table_of(error)) is not None:
        columns = [*islice(table.columns, MAX_ITEMS)]
        if isinstance(error, AttributeError):
            return f"did you mean {near!r}?" if (near := nearest_key(error.name, columns)) else ""
        near = nearest_key(error.args[0], columns)
        return f"it has the columns {listed(columns, MAX_KEYS)}{f'; did you mean {near!r}?' if near else ''}"
    if isinstance(error, (TypeError, ValueError)) and _FILE_FOR_A_LIBRARY.search(message):
        return _FOR_A_LIBRARY
    if isinstance(error, KeyError) and error.args:
        value = place.subscripted(lacking=error.args[0])
        return _of_access(value, error.args[0], place) if isinstance(value, dict) and error.args[0] not in value else ""
    if isinstance(error, AttributeError):
        return _of_attribute(error.name, getattr(error, "obj", UNKNOWN), place)
    if isinstance(error, json.JSONDecodeError):
        if not error.doc.strip():
            return "the text is empty"
        return f"results of tools are parsed already; this is {shape(error.doc)}, which is no JSON"
    if isinstance(error, TypeError) and "coroutine" in message and "await" not in message:
        return "a coroutine has no value before it is awaited: write await before the call"
    if isinstance(error, TypeError) and "indices must be" in message and (whole := place.whole()) is not None:
        return whole
    value = place.subscripted()
    if value is UNKNOWN:
        return ""
    if isinstance(error, TypeError) and "indices must be" in message and isinstance(value, (list, tuple, str)):
        return _of_access(value, place.key(), place)
    is_known = isinstance(error, IndexError) or (isinstance(error, TypeError) and "not subscriptable" in message)
    return f"{place.text or 'it'} is {shape(value)}" if is_known else ""


def _table_of(error: BaseException) -> Any:
    """The DataFrame, if the error is that it lacks a column; None otherwise."""
    if isinstance(error, AttributeError):
        table = getattr(error, "obj", None)
        return table if "pandas.DataFrame" in kinds_of(table) else None
    trace = error.__traceback__ if isinstance(error, KeyError) and error.args else None
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        file, table = frame.f_code.co_filename, frame.f_locals.get("self")
        if table is not None and file not in PROGRAM_FILES and not file.startswith(_GUEST):
            return table if "pandas.DataFrame" in kinds_of(table) else None  # `.loc` looks for rows
    return None


def _of_attribute(name: str | None, value: Any, place: Place) -> str:
    if value is UNKNOWN or name is None or name.startswith("__"):
        return ""
    value = plain(value)
    if isinstance(value, types.CoroutineType):
        return "await it first"
    if isinstance(value, Stub):
        return advice.tool_for_module(value._server, value._name) or value.how_to_call
    if isinstance(value, dict) and name in value:
        return f'results are plain dicts: write ["{name}"] for .{name}'
    is_told = isinstance(value, (dict, list, tuple, str, File)) or value is None or _is_in_envelope(name, value)
    return _of_access(value, name, place) if is_told else ""


def _of_access(value: Any, key: Any, place: Place) -> str:
    """For a value that was asked for a key or attribute that it lacks."""
    if _is_in_envelope(key, value):
        return f"results are plain values: write {place.text or 'the result'}, which is {shape(value)}"
    name, way = place.text or "it", ""
    if isinstance(value, dict):
        way = f"did you mean {near!r}?" if (near := nearest_key(key, value)) else ""
    elif isinstance(value, (list, tuple, str)):
        way = way_to_read(name, value, key)
    elif isinstance(value, File) and key in ("read", "seek", "tell"):
        way = _FOR_A_LIBRARY
    return f"{name} is {shape(value)}{f'; {way}' if way else ''}"


def _is_in_envelope(key: Any, value: Any) -> bool:
    """True for `result.content[0].text` and the like: a result is its value, without an envelope."""
    if isinstance(value, (Blocks, Fields)) or (isinstance(value, dict) and value.keys() & {key, "type"}):
        return False  # with a type it is a block of content that a tool describes itself
    return key in _ENVELOPE and isinstance(value, (list, str, int, float, dict))


def _of_a_library(kind: type[BaseException]) -> str:
    return _OF_LIBRARIES.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}", "")


_HINTS_BY_FOLDER = {
    "skills": advice.NO_SKILL_FILES,
    "servers": advice.NO_TOOL_FILES,
    "packages": "files of packages can only be read; write to /tmp or /workspace",
}
_STARTERS = ("system", "popen", "fork", "forkpty", "execv", "execvp", "posix_spawn", "spawnl", "spawnv")
_DENIED = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, 76)  # of WASI: not capable
_MAX_NAMES = 5


def _of_the_sandbox(error: BaseException) -> str:
    """Advice for the failure; empty if the sandbox is not its reason."""
    if isinstance(error, AttributeError):
        owner = getattr(error, "obj", None)
        if owner is os and error.name in _STARTERS:
            return advice.NO_PROCESSES
        is_network = error.name == "HTTPSConnection" and isinstance(owner, types.ModuleType)
        return advice.NO_NETWORK if is_network else ""
    if isinstance(error, ImportError) and "SSL" in str(error):  # of requests
        return advice.NO_NETWORK
    if isinstance(error, RuntimeError) and "determine home directory" in str(error):
        return advice.NO_HOST_FILES
    if not isinstance(error, (OSError, NotImplementedError)):
        return ""
    files = list(_files_of(error))
    if any(file.endswith(("subprocess.py", "unix_events.py")) for file in files) or "does not support processes" in str(
        error
    ):
        return advice.NO_PROCESSES
    if any(file.endswith(("/socket.py", "urllib/request.py", "http/client.py")) for file in files) or "socket" in str(
        type(error)
    ):
        return advice.NO_NETWORK
    if not isinstance(error, OSError) or error.errno not in _DENIED:
        return ""
    return _of_path(error.filename, is_missing=error.errno == errno.ENOENT)


def _of_name(error: NameError, place: Place) -> str:
    name = error.name
    if not name or isinstance(error, UnboundLocalError):
        return ""
    if wanted := advice.import_of(name, is_module=place.has_attribute_of(name)):
        return f"write: {wanted}"
    meant = similar_name(name, place.names()) or _mistyped_builtin(name)
    return f"did you mean {meant!r}?" if meant else advice.starts_fresh(*_last_result())


def _mistyped_builtin(name: str) -> str:
    """The builtin that is misspelt; `ids`, `orders` and `sum1` are rather names of an earlier program."""
    if name in _OF_JSON:
        return _OF_JSON[name]
    names = [it for it in dir(builtins) if it.islower() and abs(len(it) - len(name)) < 2 and it != name.rstrip("s")]
    return next(iter(get_close_matches(name, names, 1, 0.75)), "") if name.isalpha() else ""


def _last_result() -> tuple[str, str]:
    """The name of the last value stored in this session, and what it is; both empty if there is none."""
    results = sys.modules["codemode"].results
    values = [name for name in results if "/" not in name]
    return (values[-1], shape(results[values[-1]])) if values else ("", "")


def _of_path(written: object, *, is_missing: bool = True) -> str:
    """Advice for a path that could not be opened; `is_missing`: because there is nothing."""
    path = os.fsdecode(written) if isinstance(written, (str, bytes, pathlib.PurePath)) else ""
    if not path:
        return ""
    if path == "~" or path.startswith("~/") or ":\\" in path[:4]:
        return advice.NO_HOST_FILES
    if hint := _HINTS_BY_FOLDER.get(path.lstrip("/").split("/")[0]):
        return hint
    folder = os.path.abspath(path).split("/")[1]  # noqa: PTH100 - `resolve` would follow links
    if folder == "workspace":
        return _listed() if is_missing else ""
    if folder == "tmp":
        return advice.TMP_IS_THE_SANDBOX_S if is_missing else ""
    return advice.NO_HOST_FILES


def _listed() -> str:
    try:
        names = sorted(path.name[:60] for path in pathlib.Path("/workspace").iterdir())
    except OSError:
        return "/workspace can't be read"
    return f"/workspace has {listed(names, _MAX_NAMES)}" if names else "/workspace is empty"


def _files_of(error: BaseException | None) -> Iterator[str]:
    """The files through which the exception, and what it was raised from, went."""
    met: list[BaseException] = []
    while error is not None and not any(error is other for other in met):  # `raise error from error` makes a circle
        met.append(error)
        trace = error.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_code.co_filename
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


def plain(value: Any) -> Any:
    """A call that has its answer is that answer."""
    if type(value) is PendingCall:
        sent = value._sent
        return sent.result() if isinstance(sent, Future) and sent.done() and sent.exception() is None else UNKNOWN
    return value


class Place:
    def __init__(self, error: BaseException) -> None:
        self._frame: types.FrameType | None = None
        self._position: tuple[int | None, ...] = ()
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

    @functools.cached_property
    def _tree(self) -> ast.Module:
        file = self._frame.f_code.co_filename if self._frame is not None else ""
        return ast.parse("".join(linecache.getlines(file)))

    @property
    def text(self) -> str:
        """Source of the expression that is subscripted or whose attribute is read; empty where that is long."""
        node = self._node()
        text = ast.unparse(node.value) if node is not None else ""
        return text if len(text) <= _MAX_NAME else ""

    def subscripted(self, lacking: Any = UNKNOWN) -> Any:
        node = self._node()
        return self.value(node.value, lacking) if node is not None else UNKNOWN

    def key(self) -> Any:
        node = self._node()
        return self.value(node.slice) if isinstance(node, ast.Subscript) else UNKNOWN

    def whole(self) -> str | None:
        """What it is of which the subscripted value is a character, or a key by a loop; None if it is neither."""
        node, source = self._node(), None
        part = node.value if node is not None else None
        if isinstance(part, ast.Subscript):
            source = part.value
        elif isinstance(part, ast.Name):
            loops = (it for it in ast.walk(self._tree) if isinstance(it, (ast.For, ast.AsyncFor, ast.comprehension)))
            source = next((it.iter for it in loops if _is_name(it.target, part.id)), None)
        value = self.value(source) if source is not None else UNKNOWN
        if not isinstance(value, str) and not (isinstance(value, dict) and isinstance(part, ast.Name)):
            return None
        text = ast.unparse(source) if source is not None else ""
        text = text if len(text) <= _MAX_NAME else "it"
        way = "a loop over a dict gives its keys" if isinstance(value, dict) else way_to_read(text, value, None)
        return f"{text} is {shape(value)}{f'; {way}' if way else ''}"

    def has_attribute_of(self, name: str) -> bool:
        """True if the program reads an attribute of this name, as of a module."""
        nodes = (node.value for node in ast.walk(self._tree) if isinstance(node, ast.Attribute))
        return any(isinstance(node, ast.Name) and node.id == name for node in nodes)

    def names(self) -> list[str]:
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


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _position(node: ast.expr) -> tuple[int | None, ...]:
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
