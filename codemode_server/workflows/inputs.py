"""The typed inputs of a workflow: the parameters of its function, and what is checked of them when it is called."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems
from codemode_server.workflows.fields import NAME_RULE, Fields, is_name, plain

TYPES = {"text": "str", "number": "float", "integer": "int", "boolean": "bool", "list": "list", "object": "dict"}
"""Types of inputs, and their types in Python."""
_KEYS = ("type", "description", "required", "default", "one_of", "pattern", "min", "max")
MAX_INPUTS = 50


@dataclass(frozen=True, slots=True)
class WorkflowInput:
    """One input."""

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
        """For instance `most: int=2`."""
        return f"{self.name}: {self.annotation}" + ("" if self.is_required else f"={self.default!r}")

    def checked(self, value: str) -> str:
        """The call that checks a value."""
        return f"_checked({self.name!r}, {value}, {self.type!r}, {self.rules!r}, {self.is_required!r})"


def read_inputs(workflow: Fields) -> list[WorkflowInput]:
    """The inputs of a workflow; adds problems."""
    given = workflow.members("inputs")
    if len(given) > MAX_INPUTS:
        workflow.complain(workflow.node, f"has more than {MAX_INPUTS} inputs")
        return []
    found = [_read(name, node, workflow.problems) for name, node in given.items()]
    inputs = [it for it in found if it is not None]
    return sorted(inputs, key=lambda it: not it.is_required)


def _read(name: str, node: Node, problems: Problems) -> WorkflowInput | None:
    if not is_name(name):
        problems.add(node.line, node.where, f"the name of an input {NAME_RULE}")
        return None
    if isinstance(node.value, str):  # `email: text`
        node = node.with_value({"type": node})
    fields = Fields(node, _KEYS, problems)
    kind = fields.choice("type", tuple(TYPES), "text")
    rules: dict[str, Any] = {}
    for key in ("min", "max"):
        if fields.get(key) is not None:
            rules[key] = fields.number(key, 0, -1e15, 1e15)
    if pattern := fields.text("pattern"):
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            fields.complain(fields.entries["pattern"], f"is no regular expression: {error}")
        rules["pattern"] = pattern
    if options := [plain(it) for it in fields.items("one_of")]:
        rules["one_of"] = options
    default = fields.get("default")
    is_required = fields.flag("required", default=default is None)
    value = None if default is None else plain(default)
    return WorkflowInput(name, kind, fields.text("description"), is_required and default is None, value, rules)
