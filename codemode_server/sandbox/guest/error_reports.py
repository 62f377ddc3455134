"""An exception of a program as it is reported to the host: its failing lines, the exception, the likely fix."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from . import source
from .encoded import without_bytes
from .error_hints import mend
from .link import PROGRAM_FILE
from .modules import PROGRAM_FILES

_MAX_TEXT = 4_000
_MAX_CHAIN = 4
_MAX_FRAMES = 4
_MAX_LINE = 160
_MAX_GROUP = 5
_SUGGESTION = re.compile(r"\. (?:Did you|Or did you)[^\n]*\Z")


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as the `done` frame has it: only the program's own lines, and not too many."""
    own = traceback.TracebackException.from_exception(error, compact=True)
    _keep_own_frames(own, 0, set())
    lines = [frame.lineno for frame in own.stack if frame.filename == PROGRAM_FILE]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == PROGRAM_FILE else (lines or [None])[-1]
    kind = type(error).__name__
    if isinstance(error, MemoryError) and "too complex to parse" in str(error):
        kind = "SyntaxError"  # memory has nothing to do with it
    shown, hint = "\n".join(_text_lines(own, 0)).replace(source.BODY_NAME, "<module>").strip(), mend(error)
    if isinstance(error, NameError) and hint:
        shown = _SUGGESTION.sub("", shown)  # Python's own may be a builtin or a module that only looks alike
    return {
        "type": kind,
        "message": _shortened(_message(error), _MAX_TEXT),
        "traceback": _shortened(shown, _MAX_TEXT),
        "line": line,
        "hint": hint,
    }


def _text_lines(error: traceback.TracebackException, depth: int) -> list[str]:
    """A line for each frame and then the exception, in the order in which it happened; a cause goes before."""
    lines: list[str] = []
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and depth < _MAX_CHAIN:
        lines += _text_lines(before, depth + 1)
        lines.append("which caused:" if error.__cause__ is not None else "and while that was handled:")
    frames = [_frame(frame) for frame in _one_a_line(error.stack)]
    if len(frames) > _MAX_FRAMES:
        frames = [frames[0], f"… {len(frames) - _MAX_FRAMES + 1} more …", *frames[-_MAX_FRAMES + 2 :]]
    lines += frames
    lines += [
        _shortened(without_bytes(line.rstrip("\n")), _MAX_TEXT)
        for line in error.format_exception_only()
        if line.strip()
    ]
    for inner in (error.exceptions or ())[:_MAX_GROUP]:
        lines += [f"  {line}" for line in _text_lines(inner, depth + 1)] if depth < _MAX_CHAIN else []
    return lines


def _one_a_line(stack: Iterable[traceback.FrameSummary]) -> Iterator[traceback.FrameSummary]:
    """The frames without a comprehension or lambda that runs in the line of the frame before."""
    before = None
    for frame in stack:
        here = frame.filename, frame.lineno
        if here != before or not frame.name.startswith("<"):
            yield frame
        before = here


def _frame(frame: traceback.FrameSummary) -> str:
    file = "" if frame.filename == PROGRAM_FILE else f"{frame.filename} "
    function = "" if frame.name in ("<module>", source.BODY_NAME) else f", in {frame.name}"
    line = (frame.line or "").strip()
    return f"{file}line {frame.lineno}{function}: {_shortened(line, _MAX_LINE)}"


def _keep_own_frames(error: traceback.TracebackException, depth: int, seen: set[int]) -> None:
    seen.add(id(error))
    error.stack = traceback.StackSummary.from_list([f for f in error.stack if f.filename in PROGRAM_FILES])
    for name in ("__cause__", "__context__"):
        other = getattr(error, name)
        if other is not None and (depth >= _MAX_CHAIN or id(other) in seen):
            setattr(error, name, None)
        elif other is not None:
            _keep_own_frames(other, depth + 1, seen)
            if not other.stack and name == "__context__":
                error.__context__ = None  # raised and handled inside a library: nothing the program did
    for inner in error.exceptions or ():
        _keep_own_frames(inner, depth + 1, seen)


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, SyntaxError):
            return str(error.msg)
        return without_bytes(str(error))
    except Exception as broken:  # noqa: BLE001 - the program's own __str__ may raise anything
        return f"<its text raised {type(broken).__name__}>"


def _shortened(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    half = (size - 20) // 2
    return f"{text[:half]}\n  […]\n{text[-half:]}" if size > _MAX_LINE else f"{text[: size - 1]}…"
