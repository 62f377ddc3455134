"""One program, from its text to the `done` frame: namespace, output, value or error, and nothing of the runner."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import repetition, source
from .attachments import hint_on
from .calls import Calls, ToolError, awaitable, finish, handed_over
from .earlier_programs import Results
from .error_reports import describe
from .link import PROGRAM_FILE, LimitPassed, Link, to_json
from .output import Output
from .stubs import Stub, for_awaiting
from .value_descriptions import shape
from .values import to_result

_RESERVE_BYTES = 2**20
"""Reserved for the report of an error when the program has used up all memory."""
_TOOL_ID = 3  # the first that Python has not named for anybody
_MAX_LINES = 500
"""Lines that are sent; a program with more is long."""


def run(
    link: Link,
    calls: Calls,
    frame: dict[str, Any],
    run_async: Callable[[Any], Any],
    before_end: Callable[[], None] = lambda: None,
) -> None:
    """Run the program of a `run` frame and send its outcome; `before_end` sends pending output of its subprocesses."""
    limits = frame["limits"]
    link.begin(frame)
    with contextlib.suppress(OSError):  # there may be no workspace
        os.chdir("/workspace")  # where `open("x.csv", "w")` leaves a file that stays
    repetition.begin(frame.pop("repeat"))
    stdout, stderr = Output(link, "stdout"), Output(link, "stderr")

    def flush() -> None:
        stdout.flush()
        stderr.flush()

    link.before_wait = flush
    sys.stdout, sys.stderr = stdout, stderr
    reserve = bytearray(_RESERVE_BYTES)
    done: dict[str, Any] = {"op": "done", "value": None, "value_form": "none", "error": None}
    try:
        value = _Program(frame["code"], run_async).run(calls)
        if link.program_paths is not None:
            link.program_paths.close_all()
        is_listed = isinstance(value, Results)  # as print shows it: in full it would be all earlier values
        done["value"], done["value_form"] = (repr(value), "repr") if is_listed else to_result(value)
        done["hint"] = value.how_to_call if isinstance(value, Stub) else hint_on(value)
        text = to_json(done)
        if len(text) > limits["value_bytes"] and len(to_json(done["value"]).encode()) > limits["value_bytes"]:
            raise LimitPassed("limits.value_bytes", shape(done["value"]))
    except SystemExit as end:
        text = to_json(done if end.code in (None, 0) else {**done, "error": _exit_error(end)})
    except LimitPassed as passed:
        text = to_json({"op": "exceeded", "setting": passed.setting, "value": passed.value})
    except BaseException as error:  # noqa: BLE001 - whatever the program raised is its outcome
        reserve.clear()
        calls.report_failures()  # the error may be caused by the None of a call that failed
        text = to_json({**done, "value": None, "value_form": "none", "hint": "", "error": describe(error)})
    _report_no_lines()
    before_end()
    flush()
    link.send_last(text)


class _Program:
    def __init__(self, code: str, run_async: Callable[[Any], Any]) -> None:
        self._code = code
        self._run_async = run_async
        self._value: Any = None
        self._module = types.ModuleType("__main__")

    def run(self, calls: Calls) -> Any:
        self._module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_FILE)
        sys.modules["__main__"] = self._module
        sys.argv = [PROGRAM_FILE]
        linecache.cache[PROGRAM_FILE] = (len(self._code), None, self._code.splitlines(keepends=True), PROGRAM_FILE)
        for name, hook in {
            source.VALUE_HOOK: self._take_value,
            source.FINISH_HOOK: finish,
            source.AWAIT_HOOK: awaitable,
            source.HAND_OVER_HOOK: handed_over,
            source.AWAITED_HOOK: for_awaiting,
            "ToolError": ToolError,  # `except ToolError` is what a program writes, with or without an import
            "input": _no_input,
            "exit": sys.exit,
            "quit": sys.exit,
        }.items():
            setattr(builtins, name, hook)
        sys.breakpointhook = _no_breakpoint
        try:
            code = source.compile_program(self._code, PROGRAM_FILE)
        except SyntaxError as error:
            error.msg = f"{error.msg} (nothing was run)"
            raise
        _report_lines(code, calls.link)
        result = eval(code, self._module.__dict__)  # noqa: S307 - this is the sandbox
        if source.is_coroutine_code(code):
            self._run_async(result)
        if inspect.isawaitable(self._value):  # `main()` where `await main()` was meant
            self._value = self._run_async(self._value)
        calls.settle_unclaimed()
        return self._value

    def _take_value(self, value: Any) -> None:
        self._value = value


def _exit_error(end: SystemExit) -> dict[str, Any]:
    described = describe(end)
    described["message"] = f"exit code {end.code}" if isinstance(end.code, int) else str(end.code)
    return described


def report_thread(args: Any) -> None:
    """`threading.excepthook`: what ended a thread of the program's, without the runner's lines."""
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread is not None else "?"
        sys.stderr.write(f"Exception in thread {name}:\n{describe(args.exc_value)['traceback']}\n")


def _no_input(prompt: object = "", /) -> str:
    raise RuntimeError("input() has nobody to answer it; put the values into the program")


def _no_breakpoint(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("breakpoint() has nobody to answer it; print what you want to see")


def _report_lines(code: types.CodeType, link: Link) -> None:
    """Send each line of a program, and of all that is defined in it, when it is first reached, so that a timeout can
    name the last. It costs nothing from then on. Before Python 3.12 no line is sent."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    left, last = _MAX_LINES, 0

    def reached(_: types.CodeType, line: int) -> object:
        nonlocal left, last
        if left > 0 and line != last:
            left, last = left - 1, line
            link.send({"op": "line", "line": line})
        return monitoring.DISABLE

    monitoring.use_tool_id(_TOOL_ID, "codemode")
    monitoring.register_callback(_TOOL_ID, monitoring.events.LINE, reached)
    for each in _all_code(code):
        monitoring.set_local_events(_TOOL_ID, each, monitoring.events.LINE)


def _report_no_lines() -> None:
    """Send no more lines: nothing may follow the last frame."""
    if hasattr(sys, "monitoring") and sys.monitoring.get_tool(_TOOL_ID) is not None:
        sys.monitoring.free_tool_id(_TOOL_ID)


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)
