"""Reads the inputs and steps of a workflow's file, and compiles the steps to lines of a program.

Problems are added with line and nearest name. A value of the file gets into the program only as a literal, and every
name there is a prefix and a checked name.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from codemode_server.config.document import Node, plain_data
from codemode_server.config.problems import Problems, nearest
from codemode_server.features.workflows.expressions import NotAnExpression, Scope, expression, template

TYPES = {"text": "str", "number": "float", "integer": "int", "boolean": "bool", "list": "list", "object": "dict"}
NAME_RULE = "is up to 40 small letters, digits and `_`, the first a letter, and no word of Python"
MAX_INPUTS = 50
_INPUT_KEYS = ("type", "description", "required", "default", "one_of", "pattern", "min", "max")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_NOTHING = Node(None, 0, "")


class Fields:
    """A YAML mapping whose unknown keys are reported."""

    def __init__(self, node: Node, known: Sequence[str], problems: Problems, *, short: str = "") -> None:
        """`short`: the key of a value that stands in place of the mapping, as in `email: text`."""
        if short and not isinstance(node.value, dict | list | None):
            node = node.with_value({short: node})
        self.node, self.problems, self.entries = node, problems, node.entries
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

    def check_name(self, name: str, at: Node | str, what: str) -> None:
        if not is_name(name):
            self.complain(at, f"{what} {NAME_RULE}")

    def get(self, key: str) -> Node | None:
        return self.entries.get(key)

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers count as they are written."""
        node = self.entries.get(key)
        if node is None:
            return default
        if isinstance(node.value, list | dict | None):
            self.complain(node, "must be text")
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
        given = self.text(key, default)
        if given in choices:
            return given
        meant = nearest(given, choices)
        self.complain(key, f"must be one of {', '.join(choices)}" + (f"; did you mean {meant!r}?" if meant else ""))
        return default

    def items(self, key: str) -> list[Node]:
        node = self.entries.get(key, _NOTHING)
        if isinstance(node.value, list):
            return node.value
        if node.value is not None:
            self.complain(node, "must be a list; write `- ` before each item")
        return []

    def members(self, key: str) -> dict[str, Node]:
        node = self.entries.get(key, _NOTHING)
        if not isinstance(node.value, dict | None):
            self.complain(node, "must be a mapping; write `key: value` lines")
        return node.entries


def is_name(text: str) -> bool:
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
    fields = Fields(node, _INPUT_KEYS, problems, short="type")
    fields.check_name(name, node, "the name of an input")
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


ACTIONS = {
    "call": ("with", "retry"),
    "skill": ("with", "retry"),
    "ask": ("fields",),
    "set": (),
    "if": ("then", "else"),
    "each": ("as", "do", "collect"),
    "while": ("do", "max"),
    "fail": (),
}
_COMMON = ("id", "on_error", "description")
_WITH_ID = ("call", "skill", "ask", "set", "each")
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\.[A-Za-z_][A-Za-z0-9_]{0,199}")
_SKILL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_RETRIED = ("unavailable", "timed_out", "tool_failed")
FIELD_TYPES = ("text", "number", "integer", "boolean", "choice")
_FIELD_KEYS = ("type", "title", "description", "required", "default", "options", "min", "max", "format")
MAX_STEPS = 500
PERSON = "person"
"""The server whose tool `ask` asks the user."""


class Line(NamedTuple):
    text: str
    at: int = 0
    """The line of the file that it comes from; 0 for none."""


def block(head: Line, body: Iterable[Line]) -> list[Line]:
    return [head, *(Line(f"    {it.text}", it.at) for it in list(body) or [Line("pass", head.at)])]


def _tried(made: Iterable[Line], caught: Iterable[Line], at: int) -> list[Line]:
    return [*block(Line("try:", at), made), *block(Line("except ToolError as caught_error:", at), caught)]


@dataclass(slots=True)
class StepCompiler:
    problems: Problems
    scope: Scope
    """The names that can be used at the place that is compiled."""
    imports: dict[tuple[str, str], Line] = field(default_factory=dict)
    count: int = 0
    ids: dict[str, str] = field(default_factory=dict)

    def steps(self, nodes: Iterable[Node]) -> list[Line]:
        return [line for node in nodes for line in self._step(node)]

    def value(self, node: Node) -> str:
        if isinstance(node.value, dict):
            return _dict({key: self.value(child) for key, child in node.entries.items()})
        if isinstance(node.value, list):
            return f"[{', '.join(map(self.value, node.value))}]"
        return self._parsed(node, template, node.value) if isinstance(node.value, str) else repr(node.value)

    def _expression(self, node: Node) -> str:
        text = node.value if isinstance(node.value, str) else node.text
        if not text or isinstance(node.value, list | dict):
            self.problems.add(node.line, node.where, "must be an expression, for instance `steps.user.active`")
            return "None"
        if isinstance(node.value, bool):
            return repr(node.value)
        return self._parsed(node, expression, text[2:-1] if text.startswith("${") and text.endswith("}") else text)

    def _parsed(self, node: Node, parse: Callable[[str, Scope], str], text: str) -> str:
        try:
            return parse(text, self.scope)
        except NotAnExpression as error:
            self.problems.add(node.line, node.where, str(error))
            return "None"

    @contextmanager
    def _inner(self, names: Mapping[str, str]) -> Iterator[set[str]]:
        """Steps compiled in here may use `names`; yields the set that gets their ids, which none outside can name."""
        outer, ids = self.scope, set[str]()
        self.scope = replace(outer, names={**outer.names, **names})
        yield ids
        ids |= self.scope.steps - outer.steps
        self.scope = outer

    def _optional(self, lines: list[Line], at: int, ids: Iterable[str]) -> list[Line]:
        """Lines that may not run: the results of their steps are None then."""
        self.scope = replace(self.scope, steps=self.scope.steps.union(ids))
        return [*(Line(f"step_{name} = None", at) for name in sorted(ids)), *lines]

    def _step(self, node: Node) -> list[Line]:
        self.count += 1
        actions = [key for key in ACTIONS if key in node.entries]
        if self.count > MAX_STEPS or len(actions) != 1:
            if self.count <= MAX_STEPS:
                one = f"a step has exactly one of {', '.join(f'`{action}`' for action in ACTIONS)}"
                self.problems.add(node.line, node.where, one)
            elif self.count == MAX_STEPS + 1:
                self.problems.add(node.line, node.where, f"there are more than {MAX_STEPS} steps")
            return []
        (action,), before = actions, self.scope
        fields = Fields(node, (*_COMMON, action, *ACTIONS[action]), self.problems)
        name = self._id(fields, action)
        lines = self._action(action, fields, name)
        if (handler := fields.get("on_error")) is not None and lines:
            lines = self._guarded(fields, handler, lines, name, before)
        if name:
            self.scope = replace(self.scope, steps=self.scope.steps | {name})
        return lines

    def _id(self, fields: Fields, action: str) -> str:
        if not (name := fields.text("id")):
            return ""
        if action not in _WITH_ID:
            fields.complain("id", f"a step with `{action}` has no result, so it needs no id")
        elif not is_name(name):
            fields.complain("id", f"an id {NAME_RULE}")
        elif name in self.ids and {self.ids[name], action} != {"set"}:  # a `set` may set a value anew
            fields.complain("id", f"there is a step {name!r} already")
        else:
            self.ids[name] = action
            return name
        return ""

    def _action(self, action: str, fields: Fields, name: str) -> list[Line]:
        node, at = fields.entries[action], fields.node.line
        match action:
            case "call" | "skill":
                return self._call(action, fields, name)
            case "ask":
                return self._ask(fields, name)
            case "set":
                if not name:
                    fields.complain(node, "needs an `id`, by which later steps name it")
                return [Line(f"step_{name or 'unnamed'} = {self.value(node)}", at)]
            case "if":
                head = Line(f"if {self._expression(node)}:", at)
                with self._inner({}) as then_ids:
                    lines = block(head, self.steps(fields.items("then")))
                with self._inner({}) as else_ids:
                    if other := self.steps(fields.items("else")):
                        lines += block(Line("else:", at), other)
                return self._optional(lines, at, then_ids | else_ids)
            case "each":
                return self._each(fields, node, name)
            case "while":
                return self._while(fields, node)
        return [Line(f"raise WorkflowStopped(str({self.value(node)}))", at)]

    def _call(self, action: str, fields: Fields, name: str) -> list[Line]:
        at, target = fields.node.line, fields.text(action).replace("/", ".", 1)
        form = _TARGET if action == "call" else _SKILL
        if not form.fullmatch(target) or any(map(keyword.iskeyword, target.split("."))):
            kind = "`server.tool`, by the names that programs import" if action == "call" else "the name of a skill"
            fields.complain(action, f"must be {kind}")
            return []
        server, _, tool = target.partition(".")
        function = self._imported(f"{action if action == 'skill' else 'server'}s.{server}", tool or target, at)
        given = {key: self.value(node) for key, node in fields.members("with").items()}
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in given):
            arguments = ", ".join(f"{key}={value}" for key, value in given.items())
        elif action == "call":
            arguments = _dict(given)
        else:
            fields.complain("with", "has a name that no parameter of a skill can have")
            return []
        call = f"{function}({arguments})"
        if action == "skill":  # it may be an `async def`
            call = f"_awaited({call})"
        line = Line(f"step_{name} = {call}" if name else call, at)
        return self._retried(fields, line) if fields.get("retry") is not None else [line]

    def _retried(self, fields: Fields, call: Line) -> list[Line]:
        retry, at = Fields(fields.entries["retry"], ("times", "wait", "on"), self.problems, short="times"), call.at
        times, wait = int(retry.number("times", 3, 1, 20)), retry.number("wait", 1, 0, 60)
        kinds = [str(plain_data(one)) for one in retry.items("on")] or ["unavailable", "timed_out"]
        for kind in kinds:
            if kind not in _RETRIED:
                retry.complain("on", f"{kind!r} is none of {', '.join(_RETRIED)}")
        is_last = f"if attempt == {times - 1} or caught_error.kind not in {kinds!r}:"
        again = [*block(Line(is_last, at), [Line("raise", at)]), Line(f"_sleep({wait!r})", at)]
        return block(Line(f"for attempt in range({times}):", at), _tried([call, Line("break", at)], again, at))

    def _ask(self, fields: Fields, name: str) -> list[Line]:
        at, asked = fields.node.line, list[str]()
        if not name:
            fields.complain("ask", "needs an `id`, by which later steps name the answers")
        for key, node in fields.members("fields").items():
            one = Fields(node, _FIELD_KEYS, self.problems, short="type")
            one.check_name(key, node, "the name of a field")
            one.choice("type", FIELD_TYPES, "text")
            asked.append(_dict({"name": repr(key)} | {rule: self.value(child) for rule, child in one.entries.items()}))
        if not asked:
            fields.complain(fields.node, "needs `fields`: what the user is asked for")
        ask = self._imported(f"servers.{PERSON}", "ask", at)
        call = f"{ask}(message={self.value(fields.entries['ask'])}, fields=[{', '.join(asked)}])"
        return [Line(f"step_{name or 'unnamed'} = _answered({call})", at)]

    def _each(self, fields: Fields, node: Node, name: str) -> list[Line]:
        at, item, collect = fields.node.line, fields.text("as", "item"), fields.get("collect")
        fields.check_name(item, "as" if "as" in fields.entries else node, "the name of an item")
        if (collect is not None) is not bool(name):
            fields.complain(fields.node, "`id` and `collect` belong together: the list of what each item gives")
        head = Line(f"for each_{item} in {self._expression(node)}:", at)
        with self._inner({item: f"each_{item}"}) as ids:
            body = self.steps(fields.items("do"))
            if collect is not None and name:
                body.append(Line(f"step_{name}.append({self.value(collect)})", at))
        lines = self._optional(block(head, body), at, ids)
        return [Line(f"step_{name} = []", at), *lines] if name else lines

    def _while(self, fields: Fields, node: Node) -> list[Line]:
        at, rounds = fields.node.line, int(fields.number("max", 100, 1, 10_000))
        with self._inner({}) as ids:
            body = self.steps(fields.items("do"))
            stop = block(Line(f"if not ({self._expression(node)}):", at), [Line("break", at)])
        message = f"a loop of the workflow did not end within {rounds} rounds (max)"
        lines = [
            *block(Line(f"for round_number in range({rounds}):", at), [*stop, *body]),
            *block(Line("else:", at), [Line(f"raise WorkflowStopped({message!r})", at)]),
        ]
        return self._optional(lines, at, ids)

    def _guarded(self, fields: Fields, handler: Node, lines: list[Line], name: str, before: Scope) -> list[Line]:
        """Handles a failed call of the step: `stop`, `continue`, or steps."""
        if not isinstance(handler.value, list) and handler.value != "continue":
            if handler.value != "stop":
                fields.complain(handler, "must be `stop`, `continue`, or a list of steps")
            return lines
        at, ids, self.scope = fields.node.line, self.scope.steps - before.steps, before
        failed = [Line("caught = _error(caught_error)", at), *([Line(f"step_{name} = None", at)] if name else [])]
        with self._inner({"error": "caught"}) as handler_ids:
            failed += self.steps(handler.value if isinstance(handler.value, list) else [])
        return self._optional(_tried(lines, failed, at), at, ids | handler_ids)

    def _imported(self, module: str, name: str, at: int) -> str:
        alias = f"{module.replace('.', '_')}_{name}"
        self.imports.setdefault((module, name), Line(f"from {module} import {name} as {alias}", at))
        return alias


def _dict(members: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{key!r}: {value}' for key, value in members.items())}}}"
