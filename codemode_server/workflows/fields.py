"""Reads the mappings of a workflow's file: known keys, types of values, and problems with line and nearest name."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems, nearest, printable

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
NAME_RULE = "is up to 40 small letters, digits and `_`, the first a letter, and no word of Python"


class Fields:
    """One mapping."""

    def __init__(self, node: Node, known: Sequence[str], problems: Problems) -> None:
        self.node = node
        self.problems = problems
        self.entries = node.entries
        if not isinstance(node.value, dict):
            self.complain(node, "must be a mapping; write `key: value` lines")
        for key, child in self.entries.items():
            if key not in known:
                meant = nearest(key, known)
                hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}"
                self.complain(child, f"unknown key; {hint}")

    def complain(self, node: Node, message: str) -> None:
        self.problems.add(node.line, node.where, message)

    def get(self, key: str) -> Node | None:
        return self.entries.get(key)

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers count as they are written."""
        node = self.entries.get(key)
        if node is None:
            return default
        if isinstance(node.value, list | dict) or node.value is None:
            self.complain(node, "must be text")
            return default
        return node.value if isinstance(node.value, str) else node.text

    def flag(self, key: str, *, default: bool) -> bool:
        node = self.entries.get(key)
        if node is not None and not isinstance(node.value, bool):
            self.complain(node, "must be true or false")
        return node.value if node is not None and isinstance(node.value, bool) else default

    def number(self, key: str, default: float, minimum: float, maximum: float) -> float:
        node = self.entries.get(key)
        if node is None:
            return default
        if (
            isinstance(node.value, bool)
            or not isinstance(node.value, int | float)
            or not minimum <= node.value <= maximum
        ):
            self.complain(node, f"must be a number from {minimum:g} to {maximum:g}")
            return default
        return node.value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        found = self.text(key, default)
        if found in choices:
            return found
        meant = nearest(found, choices)
        hint = f"; did you mean {meant!r}?" if meant else ""
        self.complain(self.entries[key], f"must be one of {', '.join(choices)}{hint}")
        return default

    def items(self, key: str) -> list[Node]:
        """The members of a list."""
        node = self.entries.get(key)
        if node is None or node.value is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self.complain(node, "must be a list; write `- ` before each item")
        return []

    def members(self, key: str) -> dict[str, Node]:
        """The members of a mapping."""
        node = self.entries.get(key)
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self.complain(node, "must be a mapping; write `key: value` lines")
        return node.entries


def is_name(text: str) -> bool:
    """True if it may name an input, a step or a workflow."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text) and not keyword.issoftkeyword(text)


def is_function_name(text: str) -> bool:
    """True if it may name a workflow, which is a function beside those of Python."""
    return is_name(text) and not hasattr(builtins, text)


def plain(node: Node) -> Any:
    """The value of a node as data."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def shown(name: str) -> str:
    return repr(printable(name))
