"""Reads a workflow's file: its mappings with known keys and types of values, and its typed inputs. Problems are added
with line and nearest name.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codemode_server.config.document import Node, plain_data
from codemode_server.config.problems import Problems, nearest

TYPES = {"text": "str", "number": "float", "integer": "int", "boolean": "bool", "list": "list", "object": "dict"}
NAME_RULE = "is up to 40 small letters, digits and `_`, the first a letter, and no word of Python"
MAX_INPUTS = 50
_INPUT_KEYS = ("type", "description", "required", "default", "one_of", "pattern", "min", "max")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Fields:
    """A YAML mapping whose unknown keys are reported."""

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

    def complain(self, at: Node | str, message: str) -> None:
        node = self.entries[at] if isinstance(at, str) else at
        self.problems.add(node.line, node.where, message)

    def get(self, key: str) -> Node | None:
        return self.entries.get(key)

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers count as they are written."""
        node = self.entries.get(key)
        if node is not None and (isinstance(node.value, list | dict) or node.value is None):
            self.complain(node, "must be text")
            node = None
        if node is None:
            return default
        return node.value if isinstance(node.value, str) else node.text

    def number(self, key: str, default: float, minimum: float, maximum: float) -> float:
        node = self.entries.get(key)
        value = default if node is None else node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            self.complain(key, f"must be a number from {minimum:g} to {maximum:g}")
            return default
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        found = self.text(key, default)
        if found in choices:
            return found
        meant = nearest(found, choices)
        self.complain(key, f"must be one of {', '.join(choices)}" + (f"; did you mean {meant!r}?" if meant else ""))
        return default

    def items(self, key: str) -> list[Node]:
        node = self.entries.get(key)
        if node is not None and not isinstance(node.value, list | None):
            self.complain(node, "must be a list; write `- ` before each item")
        return node.value if node is not None and isinstance(node.value, list) else []

    def members(self, key: str) -> dict[str, Node]:
        node = self.entries.get(key)
        if node is not None and not isinstance(node.value, dict | None):
            self.complain(node, "must be a mapping; write `key: value` lines")
        return node.entries if node is not None else {}


def is_name(text: str) -> bool:
    """True if it may name an input, a step or a workflow."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text) and not keyword.issoftkeyword(text)


def is_function_name(text: str) -> bool:
    """True if it may name a workflow, which is a function beside those of Python."""
    return is_name(text) and not hasattr(builtins, text)


@dataclass(frozen=True, slots=True)
class WorkflowInput:
    """One input: a parameter of the workflow's function, and what is checked of it when it is called."""

    name: str
    type: str
    description: str = ""
    is_required: bool = True
    default: Any = None
    rules: dict[str, Any] = field(default_factory=dict)
    """`one_of`, `pattern`, `min` and `max`, as far as they are given."""

    @property
    def annotation(self) -> str:
        return TYPES[self.type] + (" | None" if not self.is_required and self.default is None else "")

    @property
    def parameter(self) -> str:
        return f"{self.name}: {self.annotation}" + ("" if self.is_required else f"={self.default!r}")

    def checked(self, value: str) -> str:
        return f"_checked({self.name!r}, {value}, {self.type!r}, {self.rules!r}, {self.is_required!r})"


def read_inputs(workflow: Fields) -> list[WorkflowInput]:
    """The inputs of a workflow, those that are required first; adds problems."""
    given = workflow.members("inputs")
    if len(given) > MAX_INPUTS:
        workflow.complain(workflow.node, f"has more than {MAX_INPUTS} inputs")
        return []
    return sorted((_input(*it, workflow.problems) for it in given.items()), key=lambda it: not it.is_required)


def _input(name: str, node: Node, problems: Problems) -> WorkflowInput:
    if not is_name(name):
        problems.add(node.line, node.where, f"the name of an input {NAME_RULE}")
    if isinstance(node.value, str):  # `email: text`
        node = node.with_value({"type": node})
    fields = Fields(node, _INPUT_KEYS, problems)
    rules: dict[str, Any] = {key: fields.number(key, 0, -1e15, 1e15) for key in ("min", "max") if fields.get(key)}
    if pattern := fields.text("pattern"):
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            fields.complain("pattern", f"is no regular expression: {error}")
        rules["pattern"] = pattern
    if options := [plain_data(it) for it in fields.items("one_of")]:
        rules["one_of"] = options
    default, required = fields.get("default"), fields.get("required")
    if required is not None and not isinstance(required.value, bool):
        fields.complain(required, "must be true or false")
    is_required = default is None and (required is None or required.value is not False)
    kind, value = fields.choice("type", tuple(TYPES), "text"), None if default is None else plain_data(default)
    return WorkflowInput(name, kind, fields.text("description"), is_required, value, rules)
