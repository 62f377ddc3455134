"""Runs a small program before the sandbox gets its own, so that this one starts fast.

The memory of the WebAssembly component is copied page by page when it is first used, which is most of the time that a
small program takes. This program uses what nearly every program uses, and leaves nothing behind.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Callable
from typing import Any

from . import runner, value_descriptions
from .calls import Calls
from .link import Link
from .modules import HostModules
from .stubs import stub_decorator

_PROGRAM = """
from servers.warm_up import find
found = [item["name"] for item in find("a", limit=1)["items"] if item.get("name")]
print(f"{len(found)} found")
found
"""
_STUB = '''
from servers import tool
from typing import Any, Literal, NotRequired, TypedDict

class Item(TypedDict, total=False):
    name: str

class FindResult(TypedDict):
    items: list[Item]
    next: NotRequired[str | None]

@tool("warm_up", "find")
def find(query: str, limit: int = ..., order: Literal["up", "down"] = ..., options: dict[str, Any] = ...) -> FindResult:
    """Find items."""
'''
_LIMITS = {"call_bytes": 2**20, "calls_in_flight": 8, "value_bytes": 2**20}
_REPEAT = {"key": "00" * 32}
_FRAME = {"execution_id": "", "code": _PROGRAM, "limits": _LIMITS, "repeat": _REPEAT}


class _Host:
    """A transport whose host answers calls at once."""

    def __init__(self) -> None:
        self._replies: collections.deque[str] = collections.deque()

    def send(self, text: str) -> None:
        frame = json.loads(text)
        if frame["op"] == "call":
            value = {"items": [{"name": "é", "url": None}], "next": None}
            self._replies.append(json.dumps({"id": frame["id"], "ok": True, "value": value}))

    def receive(self, timeout_s: float | None) -> str | None:
        return self._replies.popleft()


def warm_up(run_async: Callable[[Any], Any]) -> None:
    """Run the program; `modules.install` has been called."""
    link = Link(_Host())
    calls = Calls(link)
    finder = HostModules(link)
    finder.add({"servers.warm_up": {"kind": "package"}, "servers.warm_up.find": {"kind": "module", "source": _STUB}})
    codemode = sys.modules["codemode"]
    decorator = codemode.__dict__["__tool__"]
    codemode.__dict__["__tool__"] = stub_decorator(calls)
    sys.meta_path.insert(0, finder)
    try:
        runner.run(link, calls, {**_FRAME}, run_async)
    finally:
        sys.meta_path.remove(finder)
        codemode.__dict__["__tool__"] = decorator
        for name in ("servers", "servers.warm_up", "servers.warm_up.find"):
            sys.modules.pop(name, None)
        value_descriptions.SAMPLES.clear()
