"""Put before a program, in the sandbox: notes which keys of tools' results it uses, and where in them they are."""

import inspect
import re
import sys
from typing import Any

tracked_uses: list[tuple[str, list[str], str, bool]] = []
"""Tool, path of the dict in its result, key, and whether the tool's own arguments name it, in SQL."""
tracked_present: list[tuple[str, list[str], str, bool]] = []
"""The same of all keys that there are."""
tracked_calls: list[tuple[str, dict[str, Any]]] = []


class TrackedDict(dict[str, Any]):
    """A dict of a result, which notes what it is asked for by name."""

    place: tuple[str, list[str], str] = ("", [], "")

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._note(str(key))
        return super().__contains__(key)

    def _note(self, key: str) -> None:
        note_key(tracked_uses, key, *self.place)


def note_key(noted: list[tuple[str, list[str], str, bool]], key: str, tool: str, path: list[str], sql: str) -> None:
    one = (tool, path, key, re.search(rf"\b{re.escape(key)}\b", sql) is not None)
    if one not in noted:
        noted.append(one)


def tracked_value(value: Any, tool: str, path: list[str], sql: str) -> Any:
    if isinstance(value, dict):
        tracked = TrackedDict({key: tracked_value(item, tool, [*path, key], sql) for key, item in value.items()})
        tracked.place = (tool, path, sql)
        for key in value:
            note_key(tracked_present, key, *tracked.place)
        return tracked
    if isinstance(value, list):
        return [tracked_value(item, tool, [*path, "[]"], sql) for item in value]
    return value


def tracked_tool(function: Any, tool: str) -> Any:
    def call(*positional: Any, **named: Any) -> Any:
        given = positional[0] if positional else named
        tracked_calls.append((tool, given))
        sql = " ".join(text for text in given.values() if isinstance(text, str) and "SELECT" in text)
        if is_async(sys._getframe(1)):
            return later(positional, named, sql)
        return tracked_value(function(*positional, **named), tool, [], sql)

    async def later(positional: tuple[Any, ...], named: dict[str, Any], sql: str) -> Any:
        return tracked_value(await function(*positional, **named), tool, [], sql)

    def is_async(frame: Any) -> bool:
        """Whether the program could await the call, as the real tools tell it."""
        while frame.f_code.co_name in ("<genexpr>", "<lambda>"):
            frame = frame.f_back
        return bool(frame.f_code.co_flags & inspect.CO_COROUTINE)

    return call
