"""Reports the last reached line to the host, so that a timeout can name it.

Each line is sent when it is first reached and costs nothing from then on, so a loop is reported by the last new line in
it. Needs Python 3.12; before that no line is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType

from .link import Link

_TOOL_ID = 3  # the first that Python has not named for anybody
_MAX_LINES = 500
"""Lines that are sent; a program with more is long."""


def start(code: CodeType, link: Link) -> None:
    """Send the lines of a program, and of all that is defined in it, as they are reached."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    left, last = _MAX_LINES, 0

    def reached(_: CodeType, line: int) -> object:
        nonlocal left, last
        if left > 0 and line != last:
            left, last = left - 1, line
            link.send({"op": "line", "line": line})
        return monitoring.DISABLE

    monitoring.use_tool_id(_TOOL_ID, "codemode")
    monitoring.register_callback(_TOOL_ID, monitoring.events.LINE, reached)
    for each in _all_code(code):
        monitoring.set_local_events(_TOOL_ID, each, monitoring.events.LINE)


def stop() -> None:
    """Send no more lines: nothing may follow the last frame."""
    if hasattr(sys, "monitoring") and sys.monitoring.get_tool(_TOOL_ID) is not None:
        sys.monitoring.free_tool_id(_TOOL_ID)


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
