"""Compiles the steps of a workflow to lines of a program.

A value of the file gets into the program only as a literal, and every name there is a prefix and a checked name.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems
from codemode_server.workflows.expressions import NotAnExpression, Scope, expression, template
from codemode_server.workflows.fields import NAME_RULE, Fields, is_name, plain, shown

ACTIONS = {
    "call": ("with", "retry"),
    "skill": ("with", "retry"),
    "ask": ("fields", "on_decline"),
    "set": (),
    "if": ("then", "else"),
    "each": ("as", "do", "collect"),
    "while": ("do", "max"),
    "fail": (),
}
"""Actions of a step, and the keys that belong to each."""
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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the program."""

    text: str
    file_line: int
    """The line of the file that it comes from."""

    def indented(self) -> Line:
        return replace(self, text=f"    {self.text}")


Lines = list[Line]


@dataclass(slots=True)
class StepCompiler:
    """Compiles all steps of one workflow."""

    problems: Problems
    imports: dict[tuple[str, str], Line] = field(default_factory=dict)
    """Module and name → the line that imports it."""
    count: int = 0
    line: int = 0
    """Line in the file of the step that is compiled."""
    ids: dict[str, str] = field(default_factory=dict)
    """Each with the action of its step."""

    def steps(self, nodes: Iterable[Node], scope: Scope) -> tuple[Lines, Scope]:
        """The lines, and what can be named after them."""
        lines: Lines = []
        for node in nodes:
            made, scope = self._step(node, scope)
            lines += made
        return lines, scope

    def value(self, node: Node, scope: Scope) -> str:
        """A value of the file, with the expressions in its texts."""
        if isinstance(node.value, dict):
            return f"{{{', '.join(f'{key!r}: {self.value(child, scope)}' for key, child in node.entries.items())}}}"
        if isinstance(node.value, list):
            return f"[{', '.join(self.value(child, scope) for child in node.value)}]"
        if isinstance(text := node.value, str):
            return self._parsed(node, lambda: template(text, scope))
        return repr(node.value)

    def _expression(self, node: Node, scope: Scope) -> str:
        text = node.value if isinstance(node.value, str) else node.text
        if not text or isinstance(node.value, list | dict):
            self.problems.add(node.line, node.where, "must be an expression, for instance `steps.user.active`")
            return "None"
        if isinstance(node.value, bool):
            return repr(node.value)
        inner = text[2:-1] if text.startswith("${") and text.endswith("}") else text
        return self._parsed(node, lambda: expression(inner, scope))

    def _parsed(self, node: Node, parse: Callable[[], str]) -> str:
        try:
            return parse()
        except NotAnExpression as error:
            self.problems.add(node.line, node.where, str(error))
            return "None"

    def _lines(self, *texts: str) -> Lines:
        return [Line(text, self.line) for text in texts]

    def _block(self, head: str, body: Lines) -> Lines:
        return [*self._lines(head), *(line.indented() for line in body or self._lines("pass"))]

    def _step(self, node: Node, scope: Scope) -> tuple[Lines, Scope]:
        self.count, self.line = self.count + 1, node.line
        if self.count > MAX_STEPS:
            if self.count == MAX_STEPS + 1:
                self.problems.add(node.line, node.where, f"there are more than {MAX_STEPS} steps")
            return [], scope
        actions = [key for key in ACTIONS if key in node.entries]
        if len(actions) != 1:
            every = ", ".join(f"`{action}`" for action in ACTIONS)
            self.problems.add(node.line, node.where, f"a step has exactly one of {every}")
            return [], scope
        (action,) = actions
        fields = Fields(node, (*_COMMON, action, *ACTIONS[action]), self.problems)
        name = self._id(fields, action)
        made, after = self._action(action, fields, name, scope)
        if (handler := fields.get("on_error")) is not None:
            made, after = self._guarded(fields, handler, made, name, scope, after)
        return made, replace(after, steps=after.steps | {name}) if name else after

    def _id(self, fields: Fields, action: str) -> str:
        name = fields.text("id")
        if not name:
            return ""
        if action not in _WITH_ID:
            fields.complain(fields.entries["id"], f"a step with `{action}` has no result, so it needs no id")
        elif not is_name(name):
            fields.complain(fields.entries["id"], f"an id {NAME_RULE}")
        elif name in self.ids and {self.ids[name], action} != {"set"}:  # a `set` may set a value anew
            fields.complain(fields.entries["id"], f"there is a step {shown(name)} already")
        else:
            self.ids[name] = action
            return name
        return ""

    def _action(self, action: str, fields: Fields, name: str, scope: Scope) -> tuple[Lines, Scope]:
        node = fields.entries[action]
        match action:
            case "call" | "skill":
                return self._call(action, fields, name, scope), scope
            case "ask":
                return self._ask(fields, name, scope), scope
            case "set":
                if not name:
                    fields.complain(node, "needs an `id`, by which later steps name it")
                return self._lines(f"step_{name or 'unnamed'} = {self.value(node, scope)}"), scope
            case "if":
                return self._if(fields, node, scope)
            case "each":
                return self._each(fields, node, name, scope)
            case "while":
                return self._while(fields, node, scope)
        return self._lines(f"raise WorkflowStopped(str({self.value(node, scope)}))"), scope

    def _call(self, action: str, fields: Fields, name: str, scope: Scope) -> Lines:
        target = fields.text(action).replace("/", ".", 1)
        if action == "call" and _TARGET.fullmatch(target) and not any(map(keyword.iskeyword, target.split("."))):
            server, tool = target.split(".")
            function = self._imported(f"servers.{server}", tool)
        elif action == "skill" and _SKILL.fullmatch(target) and not keyword.iskeyword(target):
            function = self._imported(f"skills.{target}", target)
        else:
            kind = "`server.tool`, by the names that programs import" if action == "call" else "the name of a skill"
            fields.complain(fields.entries[action], f"must be {kind}")
            return []
        given = {key: self.value(node, scope) for key, node in fields.members("with").items()}
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in given):
            arguments = ", ".join(f"{key}={value}" for key, value in given.items())
        elif action == "call":
            arguments = f"{{{', '.join(f'{key!r}: {value}' for key, value in given.items())}}}"
        else:
            fields.complain(fields.entries["with"], "has a name that no parameter of a skill can have")
            return []
        call = f"{function}({arguments})"
        if action == "skill":  # it may be an `async def`
            call = f"_awaited({call})"
        lines = self._lines(f"step_{name} = {call}" if name else call)
        return self._retried(fields, lines) if fields.get("retry") is not None else lines

    def _retried(self, fields: Fields, call: Lines) -> Lines:
        node = fields.entries["retry"]
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            node = node.with_value({"times": node})
        retry = Fields(node, ("times", "wait", "on"), self.problems)
        times, wait = int(retry.number("times", 3, 1, 20)), retry.number("wait", 1, 0, 60)
        kinds = [str(plain(one)) for one in retry.items("on")] or ["unavailable", "timed_out"]
        for kind in kinds:
            if kind not in _RETRIED:
                retry.complain(retry.entries["on"], f"{shown(kind)} is none of {', '.join(_RETRIED)}")
        again = [
            *self._block(f"if attempt == {times - 1} or caught_error.kind not in {kinds!r}:", self._lines("raise")),
            *self._lines(f"_sleep({wait!r})"),
        ]
        attempt = self._block("try:", [*call, *self._lines("break")])
        return self._block(
            f"for attempt in range({times}):",
            [*attempt, *self._block("except ToolError as caught_error:", again)],
        )

    def _ask(self, fields: Fields, name: str, scope: Scope) -> Lines:
        if not name:
            fields.complain(fields.entries["ask"], "needs an `id`, by which later steps name the answers")
        asked: list[str] = []
        for key, node in fields.members("fields").items():
            if not is_name(key):
                self.problems.add(node.line, node.where, f"the name of a field {NAME_RULE}")
            if isinstance(node.value, str):
                node = node.with_value({"type": node})
            one = Fields(node, _FIELD_KEYS, self.problems)
            one.choice("type", FIELD_TYPES, "text")
            rules = (f"{rule!r}: {self.value(child, scope)}" for rule, child in one.entries.items())
            asked.append("{" + ", ".join([f"'name': {key!r}", *rules]) + "}")
        if not asked:
            fields.complain(fields.node, "needs `fields`: what the user is asked for")
        ask = self._imported(f"servers.{PERSON}", "ask")
        call = f"{ask}(message={self.value(fields.entries['ask'], scope)}, fields=[{', '.join(asked)}])"
        may_decline = fields.choice("on_decline", ("stop", "continue"), "stop") == "continue"
        answers = f"step_{name or 'unnamed'}"
        lines = self._lines(f"{answers} = _answered({call}, may_decline={may_decline!r})")
        if not may_decline:
            return lines
        # The answers are None if they were never valid, which is a `tool_failed`.
        others = self._block("if caught_error.kind != 'tool_failed':", self._lines("raise"))
        caught = [*others, *self._lines(f"{answers} = None")]
        return [*self._block("try:", lines), *self._block("except ToolError as caught_error:", caught)]

    def _if(self, fields: Fields, node: Node, scope: Scope) -> tuple[Lines, Scope]:
        head = f"if {self._expression(node, scope)}:"
        line = self.line
        body, then = self.steps(fields.items("then"), scope)
        other, otherwise = self.steps(fields.items("else"), scope)
        self.line = line
        lines = [*self._block(head, body), *(self._block("else:", other) if other else [])]
        return self._optional(lines, scope, then, otherwise)

    def _each(self, fields: Fields, node: Node, name: str, scope: Scope) -> tuple[Lines, Scope]:
        item = fields.text("as", "item")
        if not is_name(item):
            fields.complain(fields.entries["as"], f"the name of an item {NAME_RULE}")
            item = "item"
        head, line = f"for each_{item} in {self._expression(node, scope)}:", self.line
        body, inner = self.steps(fields.items("do"), replace(scope, items=scope.items | {item}))
        self.line = line
        collect = fields.get("collect")
        before: Lines = []
        if (collect is not None) is not bool(name):
            fields.complain(fields.node, "`id` and `collect` belong together: the list of what each item gives")
        elif collect is not None:
            before = self._lines(f"step_{name} = []")
            body += self._lines(f"step_{name}.append({self.value(collect, inner)})")
        made, after = self._optional(self._block(head, body), scope, replace(inner, items=scope.items))
        return [*before, *made], after

    def _while(self, fields: Fields, node: Node, scope: Scope) -> tuple[Lines, Scope]:
        rounds, line = int(fields.number("max", 100, 1, 10_000)), self.line
        body, inner = self.steps(fields.items("do"), scope)
        self.line = line
        stop = self._block(f"if not ({self._expression(node, inner)}):", self._lines("break"))
        message = f"a loop of the workflow did not end within {rounds} rounds (max)"
        lines = [
            *self._block(f"for round_number in range({rounds}):", [*stop, *body]),
            *self._block("else:", self._lines(f"raise WorkflowStopped({message!r})")),
        ]
        return self._optional(lines, scope, inner)

    def _guarded(
        self, fields: Fields, handler: Node, made: Lines, name: str, scope: Scope, after: Scope
    ) -> tuple[Lines, Scope]:
        """Handles a failed call of the step: `stop`, `continue`, or steps."""
        if handler.value == "stop" or not made:
            return made, after
        line, steps, caught = self.line, list[Line](), after
        if isinstance(handler.value, list):
            steps, caught = self.steps(handler.value, replace(scope, has_error=True))
            self.line = line
        elif handler.value != "continue":
            fields.complain(handler, "must be `stop`, `continue`, or a list of steps")
            return made, after
        failed = [*self._lines("caught = _error(caught_error)", *([f"step_{name} = None"] if name else [])), *steps]
        lines = [*self._block("try:", made), *self._block("except ToolError as caught_error:", failed)]
        return self._optional(lines, scope, after, replace(caught, has_error=scope.has_error))

    def _optional(self, lines: Lines, before: Scope, *after: Scope) -> tuple[Lines, Scope]:
        """Lines that may not run: the results of their steps are None then."""
        new = sorted(frozenset().union(*(scope.steps for scope in after)) - before.steps)
        lines = [*self._lines(*(f"step_{name} = None" for name in new)), *lines]
        return lines, replace(before, steps=before.steps | frozenset(new))

    def _imported(self, module: str, name: str) -> str:
        """The name of the function in the program."""
        alias = f"{module.replace('.', '_')}_{name}"
        self.imports.setdefault((module, name), Line(f"from {module} import {name} as {alias}", self.line))
        return alias
