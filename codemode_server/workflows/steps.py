"""Compiles the steps of a workflow to statements of a program.

The statements are built as a syntax tree, never as text: a value of the file is a constant in it, and every name is
made of a prefix and a checked name.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems
from codemode_server.workflows.expressions import NotAnExpression, Scope, expression, template
from codemode_server.workflows.fields import NAME_RULE, Fields, is_name, shown
from codemode_server.workflows.inputs import literal, plain

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
"""What a step does, and the keys that belong to it."""
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


@dataclass(slots=True)
class StepCompiler:
    """Compiles all steps of one workflow."""

    problems: Problems
    imports: dict[tuple[str, str], str] = field(default_factory=dict)
    """Module and name → the name under which the program has it."""
    lines: dict[ast.stmt, int] = field(default_factory=dict)
    """Statement → line of the file."""
    import_lines: dict[str, int] = field(default_factory=dict)
    """Name in the program → line of the file that needs it first."""
    count: int = 0
    line: int = 0
    """Of the step that is compiled."""
    ids: dict[str, str] = field(default_factory=dict)
    """Each with what its step does."""

    def steps(self, nodes: Iterable[Node], scope: Scope) -> tuple[list[ast.stmt], Scope]:
        """The statements, and what can be named after them."""
        found: list[ast.stmt] = []
        for node in nodes:
            made, scope = self._step(node, scope)
            for statement in made:
                for one in ast.walk(statement):
                    if isinstance(one, ast.stmt):
                        self.lines.setdefault(one, node.line)
            found += made
        return found, scope

    def body(self, nodes: list[Node], scope: Scope) -> tuple[list[ast.stmt], Scope]:
        """Steps below another; one that may not run gives None."""
        statements, after = self.steps(nodes, scope)
        return statements or [ast.Pass()], after

    def value(self, node: Node, scope: Scope) -> ast.expr:
        """A value of the file, with the expressions in its texts."""
        if isinstance(node.value, dict):
            keys: list[ast.expr | None] = [ast.Constant(key) for key in node.entries]
            return ast.Dict(keys, [self.value(it, scope) for it in node.entries.values()])
        if isinstance(node.value, list):
            return ast.List([self.value(it, scope) for it in node.value], ast.Load())
        if isinstance(node.value, str):
            return self._parsed(node, lambda: template(str(node.value), scope))
        return ast.Constant(node.value)

    def _expression(self, node: Node, scope: Scope) -> ast.expr:
        text = node.value if isinstance(node.value, str) else node.text
        if not text or isinstance(node.value, list | dict):
            self.problems.add(node.line, node.where, "must be an expression, for instance `steps.user.active`")
            return ast.Constant(None)
        if text.startswith("${") and text.endswith("}"):
            text = text[2:-1]
        if isinstance(node.value, bool):
            return ast.Constant(node.value)
        return self._parsed(node, lambda: expression(text, scope))

    def _parsed(self, node: Node, parse: Callable[[], ast.expr]) -> ast.expr:
        try:
            return parse()
        except NotAnExpression as error:
            self.problems.add(node.line, node.where, str(error))
            return ast.Constant(None)

    def _step(self, node: Node, scope: Scope) -> tuple[list[ast.stmt], Scope]:
        self.count, self.line = self.count + 1, node.line
        if self.count > MAX_STEPS:
            if self.count == MAX_STEPS + 1:
                self.problems.add(node.line, node.where, f"there are more than {MAX_STEPS} steps")
            return [], scope
        actions = [key for key in ACTIONS if key in node.entries]
        if len(actions) != 1:
            every = ", ".join(f"`{it}`" for it in ACTIONS)
            self.problems.add(node.line, node.where, f"a step has exactly one of {every}")
            return [], scope
        (action,) = actions
        fields = Fields(node, (*_COMMON, action, *ACTIONS[action]), self.problems)
        name = self._id(fields, action)
        made, after = self._action(action, fields, name, scope)
        if (handler := fields.get("on_error")) is not None:
            made, after = self._guarded(fields, handler, made, name, scope, after)
        if name:
            after = replace(after, steps=after.steps | {name})
        return made, after

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

    def _action(self, action: str, fields: Fields, name: str, scope: Scope) -> tuple[list[ast.stmt], Scope]:
        node = fields.entries[action]
        match action:
            case "call" | "skill":
                return self._call(action, fields, name, scope), scope
            case "ask":
                return self._ask(fields, name, scope), scope
            case "set":
                if not name:
                    fields.complain(node, "needs an `id`, by which later steps name it")
                return [_assign(name or "unnamed", self.value(node, scope))], scope
            case "if":
                return self._if(fields, node, scope)
            case "each":
                return self._each(fields, node, name, scope)
            case "while":
                return self._while(fields, node, scope)
        message = ast.Call(ast.Name("str", ast.Load()), [self.value(node, scope)], [])
        return [_raise_stopped(message)], scope

    def _call(self, action: str, fields: Fields, name: str, scope: Scope) -> list[ast.stmt]:
        target = fields.text(action).replace("/", ".", 1)
        if action == "call" and _TARGET.fullmatch(target) and not any(map(keyword.iskeyword, target.split("."))):
            server, tool = target.split(".")
            function = self.imported(f"servers.{server}", tool)
        elif action == "skill" and _SKILL.fullmatch(target) and not keyword.iskeyword(target):
            function = self.imported(f"skills.{target}", target)
        else:
            what = "`server.tool`, by the names that programs import" if action == "call" else "the name of a skill"
            fields.complain(fields.entries[action], f"must be {what}")
            return []
        given = {key: self.value(it, scope) for key, it in fields.members("with").items()}
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in given):
            call = ast.Call(function, [], [ast.keyword(key, it) for key, it in given.items()])
        elif action == "call":
            names: list[ast.expr | None] = [ast.Constant(key) for key in given]
            call = ast.Call(function, [ast.Dict(names, list(given.values()))], [])
        else:
            fields.complain(fields.entries["with"], "has a name that no parameter of a skill can have")
            return []
        if action == "skill":  # it may be an `async def`
            call = ast.Call(ast.Name("_awaited", ast.Load()), [call], [])
        statement = _assign(name, call) if name else ast.Expr(call)
        return self._retried(fields, statement) if fields.get("retry") is not None else [statement]

    def _retried(self, fields: Fields, statement: ast.stmt) -> list[ast.stmt]:
        node = fields.entries["retry"]
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            node = node.with_value({"times": node})
        retry = Fields(node, ("times", "wait", "on"), self.problems)
        times, wait = int(retry.number("times", 3, 1, 20)), retry.number("wait", 1, 0, 60)
        kinds = [str(plain(it)) for it in retry.items("on")] or ["unavailable", "timed_out"]
        for kind in kinds:
            if kind not in _RETRIED:
                retry.complain(retry.entries["on"], f"{shown(kind)} is none of {', '.join(_RETRIED)}")
        attempt, caught = ast.Name("attempt", ast.Load()), ast.Name("caught_error", ast.Load())
        kind_of: ast.expr = ast.Attribute(caught, "kind", ast.Load())
        is_last = ast.Compare(attempt, [ast.Eq()], [ast.Constant(times - 1)])
        is_other = ast.Compare(kind_of, [ast.NotIn()], [literal(kinds)])
        again: list[ast.stmt] = [
            ast.If(ast.BoolOp(ast.Or(), [is_last, is_other]), [ast.Raise()], []),
            ast.Expr(ast.Call(ast.Name("_sleep", ast.Load()), [ast.Constant(wait)], [])),
        ]
        handler = ast.ExceptHandler(ast.Name("ToolError", ast.Load()), "caught_error", again)
        attempts = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(times)], [])
        body: list[ast.stmt] = [ast.Try([statement, ast.Break()], [handler], [], [])]
        return [ast.For(ast.Name("attempt", ast.Store()), attempts, body, [], lineno=0)]

    def _ask(self, fields: Fields, name: str, scope: Scope) -> list[ast.stmt]:
        if not name:
            fields.complain(fields.entries["ask"], "needs an `id`, by which later steps name the answers")
        asked: list[ast.expr] = []
        for key, node in fields.members("fields").items():
            if not is_name(key):
                self.problems.add(node.line, node.where, f"the name of a field {NAME_RULE}")
            if isinstance(node.value, str):
                node = node.with_value({"type": node})
            one = Fields(node, _FIELD_KEYS, self.problems)
            one.choice("type", FIELD_TYPES, "text")
            values: list[ast.expr] = [ast.Constant(key), *(self.value(it, scope) for it in one.entries.values())]
            keys: list[ast.expr | None] = [ast.Constant("name"), *map(ast.Constant, one.entries)]
            asked.append(ast.Dict(keys, values))
        if not asked:
            fields.complain(fields.node, "needs `fields`: what the user is asked for")
        ask = self.imported(f"servers.{PERSON}", "ask")
        message = ast.keyword("message", self.value(fields.entries["ask"], scope))
        call = ast.Call(ask, [], [message, ast.keyword("fields", ast.List(asked, ast.Load()))])
        may_decline = fields.choice("on_decline", ("stop", "continue"), "stop") == "continue"
        answered = ast.Call(
            ast.Name("_answered", ast.Load()), [call], [ast.keyword("may_decline", ast.Constant(may_decline))]
        )
        statement = _assign(name or "unnamed", answered)
        return [_or_none_if_invalid(statement, name or "unnamed")] if may_decline else [statement]

    def _if(self, fields: Fields, node: Node, scope: Scope) -> tuple[list[ast.stmt], Scope]:
        test = self._expression(node, scope)
        body, then = self.body(fields.items("then"), scope)
        other, otherwise = self.steps(fields.items("else"), scope)
        return self._maybe(ast.If(test, body, other), scope, then, otherwise)

    def _each(self, fields: Fields, node: Node, name: str, scope: Scope) -> tuple[list[ast.stmt], Scope]:
        item = fields.text("as", "item")
        if not is_name(item):
            fields.complain(fields.entries["as"], f"the name of an item {NAME_RULE}")
            item = "item"
        source = self._expression(node, scope)
        body, inner = self.body(fields.items("do"), replace(scope, items=scope.items | {item}))
        before: list[ast.stmt] = []
        collect = fields.get("collect")
        if (collect is not None) is not bool(name):
            fields.complain(fields.node, "`id` and `collect` belong together: the list of what each item gives")
        elif collect is not None:
            before = [_assign(name, ast.List([], ast.Load()))]
            append = ast.Attribute(ast.Name(f"step_{name}", ast.Load()), "append", ast.Load())
            body.append(ast.Expr(ast.Call(append, [self.value(collect, inner)], [])))
        loop = ast.For(ast.Name(f"each_{item}", ast.Store()), source, body, [], lineno=0)
        made, after = self._maybe(loop, scope, replace(inner, items=scope.items))
        return [*before, *made], after

    def _while(self, fields: Fields, node: Node, scope: Scope) -> tuple[list[ast.stmt], Scope]:
        rounds = int(fields.number("max", 100, 1, 10_000))
        body, inner = self.body(fields.items("do"), scope)
        test = self._expression(node, inner)
        stop = ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], [])
        times = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(rounds)], [])
        message = ast.Constant(f"a loop of the workflow did not end within {rounds} rounds (max)")
        loop = ast.For(ast.Name("round_number", ast.Store()), times, [stop, *body], [_raise_stopped(message)], lineno=0)
        return self._maybe(loop, scope, inner)

    def _guarded(
        self, fields: Fields, handler: Node, made: list[ast.stmt], name: str, scope: Scope, after: Scope
    ) -> tuple[list[ast.stmt], Scope]:
        """What happens if a call of the step fails: `stop`, `continue`, or steps."""
        if handler.value == "stop" or not made:
            return made, after
        if handler.value == "continue":
            steps: list[ast.stmt] = [_assign(name, ast.Constant(None)) if name else ast.Pass()]
            caught = after
        elif isinstance(handler.value, list):
            steps, caught = self.body(handler.value, replace(scope, has_error=True))
            if name:
                steps = [_assign(name, ast.Constant(None)), *steps]
        else:
            fields.complain(handler, "must be `stop`, `continue`, or a list of steps")
            return made, after
        error = ast.Call(ast.Name("_error", ast.Load()), [ast.Name("caught_error", ast.Load())], [])
        noted = ast.Assign([ast.Name("caught", ast.Store())], error, lineno=0)
        catch = ast.ExceptHandler(ast.Name("ToolError", ast.Load()), "caught_error", [noted, *steps])
        return self._maybe(ast.Try(made, [catch], [], []), scope, after, replace(caught, has_error=scope.has_error))

    def _maybe(self, statement: ast.stmt, before: Scope, *after: Scope) -> tuple[list[ast.stmt], Scope]:
        """A statement whose steps may not run: what they would give is None then."""
        new = sorted(frozenset().union(*(it.steps for it in after)) - before.steps)
        return [*(_assign(name, ast.Constant(None)) for name in new), statement], replace(
            before, steps=before.steps | frozenset(new)
        )

    def imported(self, module: str, name: str) -> ast.Name:
        """The function under its name in the program."""
        alias = self.imports.setdefault((module, name), f"{module.replace('.', '_')}_{name}")
        self.import_lines.setdefault(alias, self.line)
        return ast.Name(alias, ast.Load())

    def import_statements(self) -> list[ast.stmt]:
        """One for each function that the steps call."""
        made: list[ast.stmt] = []
        for (module, name), alias in self.imports.items():
            made.append(ast.ImportFrom(module, [ast.alias(name, alias)], 0))
            self.lines[made[-1]] = self.import_lines[alias]
        return made


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(f"step_{name}", ast.Store())], value, lineno=0)


def _or_none_if_invalid(question: ast.stmt, name: str) -> ast.stmt:
    """The statement of a question; the answers are None if they were never valid, which is a `tool_failed`."""
    kind = ast.Attribute(ast.Name("caught_error", ast.Load()), "kind", ast.Load())
    is_other = ast.Compare(kind, [ast.NotEq()], [ast.Constant("tool_failed")])
    steps: list[ast.stmt] = [ast.If(is_other, [ast.Raise()], []), _assign(name, ast.Constant(None))]
    return ast.Try([question], [ast.ExceptHandler(ast.Name("ToolError", ast.Load()), "caught_error", steps)], [], [])


def _raise_stopped(message: ast.expr) -> ast.stmt:
    return ast.Raise(ast.Call(ast.Name("WorkflowStopped", ast.Load()), [message], []))
