"""Put before a program, in the sandbox: notes which keys of tools' results it uses, and where in them they are."""

import inspect
import re
from typing import Any

tracked_uses: list[tuple[str, list[str], str, bool]] = []
"""Tool, path of the dict in its result, key, and whether the tool's own arguments name it, in SQL."""
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
        tool, path, sql = self.place
        use = (tool, path, key, re.search(rf"\b{re.escape(key)}\b", sql) is not None)
        if use not in tracked_uses:
            tracked_uses.append(use)


def tracked_value(value: Any, tool: str, path: list[str], sql: str) -> Any:
    if isinstance(value, dict):
        tracked = TrackedDict({key: tracked_value(item, tool, [*path, key], sql) for key, item in value.items()})
        tracked.place = (tool, path, sql)
        return tracked
    if isinstance(value, list):
        return [tracked_value(item, tool, [*path, "[]"], sql) for item in value]
    return value


def tracked_tool(function: Any, tool: str) -> Any:
    def call(*positional: Any, **named: Any) -> Any:
        given = positional[0] if positional else named
        tracked_calls.append((tool, given))
        sql = " ".join(text for text in given.values() if isinstance(text, str) and "SELECT" in text)
        result = function(*positional, **named)
        if inspect.isawaitable(result):
            return later(result, sql)
        return tracked_value(result, tool, [], sql)

    async def later(result: Any, sql: str) -> Any:
        return tracked_value(await result, tool, [], sql)

    return call
