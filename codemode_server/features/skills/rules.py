"""Facts from a skill's text (its function, its tools), and the rules for what may be saved. A text is only parsed here.

A skill has no rights of its own, so these rules protect those who read and import it: its name means one file on every
file system, its text shows all that is in it, and its statements define.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.principals import DEVICE_NAMES
from codemode_server.executions.preflight.reading import MAX_CHARACTERS, Reading, imported_modules, line_of, read
from codemode_server.sandbox.guest.advice import dotted
from codemode_server.sandbox.guest.scopes import last_name
from codemode_server.sandbox.importable import NEVER_IN_WORKSPACE
from codemode_server.support.text import clean, clean_line, escaped, first_lines

MAX_SUMMARY_CHARACTERS = 120
MAX_TOOLS = 20
BY_NAME = "tools by names known only at run time"
_SIGNATURE_CHARACTERS = 240
_CALLERS = ("call", "call_mcp_tool")
_DYNAMIC = (*_CALLERS, "import_module", "__import__", "eval", "exec")
"""Functions that reach tools by a text."""
_MODULES = ("servers", "codemode", "client")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class SkillSource:
    """The facts of one text; all of it is untrusted, cleaned and bounded."""

    summary: str
    function: str = ""
    signature: str = ""
    tools: tuple[str, ...] = ()


@lru_cache(maxsize=1_000)
def facts_of(name: str, text: str) -> SkillSource:
    if len(text) > MAX_CHARACTERS:
        return SkillSource("(too long to be read here)")
    if (reading := read(text)) is None:
        return SkillSource("(not valid Python)")
    try:
        return _facts(name, reading)
    except RecursionError:
        return SkillSource("(nested too deep)", tools=tools_of(reading))


def _facts(name: str, reading: Reading) -> SkillSource:
    functions = {function.name: function for function in _functions(reading.tree)}
    function = functions.get(name) or next(iter(functions.values()), None)
    docstring = ast.get_docstring(reading.tree) or (ast.get_docstring(function) if function else None) or ""
    summary = clean_line(docstring.partition("\n")[0], MAX_SUMMARY_CHARACTERS)
    signature = _signature(function) if function else ""
    return SkillSource(summary, function.name if function else "", signature, tools_of(reading))


def tools_of(reading: Reading) -> tuple[str, ...]:
    """The tools that a text imports or calls by name, as `server.tool`, and the skills that it imports, sorted; before
    them `BY_NAME` if it may call others."""
    found = sorted({tool for node in reading.nodes for tool in _named(node)})
    if any(_is_by_name(node, reading.parents.get(node)) for node in reading.nodes):
        found.insert(0, BY_NAME)
    return tuple(first_lines(found, MAX_TOOLS, "and {:,} more"))


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            paths = [module] if module.count(".") >= 2 else [f"{module}.{alias.name}" for alias in aliases]
        case ast.Import(names=aliases):
            paths = [alias.name for alias in aliases]
        case ast.Call(func=func, args=[ast.Constant(value=str(server)), ast.Constant(value=str(tool)), *_]) if (
            last_name(func) == "call"
        ):
            paths = [f"servers.{server}.{tool}"]
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if last_name(func) == "call_mcp_tool":
            paths = [f"servers.{dotted(name)}"]
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="servers"), attr=server), attr=tool):
            paths = [f"servers.{server}.{tool}"]
        case _:
            return
    for path in paths:
        root, _, rest = path.partition(".")
        if root == "servers" and rest:
            yield clean_line(rest, 120)
        elif root == "skills" and rest:
            yield clean_line(f"skills.{rest.partition('.')[0]}", 120)


def _is_by_name(node: ast.AST, parent: ast.AST | None) -> bool:
    """True if a tool may be called here that `_named` does not find."""
    match node:
        case ast.ImportFrom(module=str(module), level=0, names=aliases) if module.partition(".")[0] in _MODULES:
            return any(alias.name == "*" or (alias.name in _CALLERS and alias.asname) for alias in aliases)
        case ast.Import(names=aliases):
            return any(alias.name in _MODULES and alias.asname for alias in aliases)
        case ast.Name(id="servers" | "codemode") | ast.Attribute(value=ast.Name(id="servers")):
            return not isinstance(parent, ast.Attribute)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if last_name(node) in _DYNAMIC:
            return not (isinstance(parent, ast.Call) and parent.func is node and any(_named(parent)))
    return False


def _functions(module: ast.Module) -> Iterator[_Function]:
    """The public functions at top level."""
    for statement in module.body:
        if isinstance(statement, _Function) and not statement.name.startswith("_"):
            yield statement


def _signature(function: _Function) -> str:
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return clean_line(f"{function.name}({ast.unparse(function.args)}){returned}", _SIGNATURE_CHARACTERS)


MAX_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
_MAX_PROBLEMS = 5
_FROM_OUTSIDE = (
    "a skill can't import {!r}: it imports the standard library, packages, servers and skills, since a module in "
    "/workspace can change after the user has accepted the skill; save that as a skill too"
)
_DEFINITIONS = frozenset(
    {"Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef", "Assign", "AnnAssign", "TypeAlias", "Pass"}
)
_FALSE_ON_IMPORT = ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")
_ACTS = "only imports, functions, classes and constants may stand at top level; put the rest into a function"


def check_name(name: str) -> None:
    """Raises `MetaToolError` if no skill may have this name."""
    shown = escaped(name[:80])
    if not _NAME.fullmatch(name):
        raise MetaToolError(
            f"{shown!r} can't be the name of a skill: it takes a letter, then letters, digits and _, at most 60 in all"
        )
    if keyword.iskeyword(name) or name.lower() in DEVICE_NAMES:
        raise MetaToolError(f"{shown!r} is reserved and can't be the name of a skill; choose another")


def check_text(name: str, text: str, importable: frozenset[str] | None) -> None:
    """Raises `MetaToolError` with all that is wrong, a line each. `importable` are the modules of the sandbox, None if
    they are not known, as those of the user's own image."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise MetaToolError(f"a skill has at most {MAX_BYTES // 1024} KiB")
    if clean(text) != text:
        hidden = next(number for number, line in enumerate(text.split("\n"), start=1) if clean(line) != line)
        raise MetaToolError(
            f"line {hidden} has characters that nobody sees (controls, marks of direction, zero width); write them as "
            "escapes such as \\u200b"
        )
    if (reading := read(text)) is None:
        raise MetaToolError(f"skills/{name}.py is not valid Python, or too dense to be checked")
    unreviewed = unreviewed_imports(reading, importable) if importable is not None else ()
    outside = ((line, _FROM_OUTSIDE.format(escaped(module[:60]))) for line, module in unreviewed)
    problems = sorted({*_look_alikes(text), *_acting(reading.tree.body), *outside})
    if not any(isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef) for it in reading.tree.body):
        problems.append((1, f"it defines no function; write def {name}(…)"))
    if problems:
        lines = first_lines([f"line {line}: {message}" for line, message in problems], _MAX_PROBLEMS)
        raise MetaToolError("\n".join([f"skills/{name}.py was not saved:", *lines]))


def unreviewed_imports(reading: Reading, importable: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """The modules that a text imports, and that may come from /workspace, where any program can change them."""
    for node in reading.nodes:
        for root in (name.partition(".")[0] for name in imported_modules(node)):
            if root not in NEVER_IN_WORKSPACE and root not in importable:
                yield line_of(node), root


def _look_alikes(text: str) -> Iterator[tuple[int, str]]:
    """Names with letters beyond ASCII: some look like others, and Python takes some for others."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not token.string.isascii():
            yield token.start[0], f"the name {token.string[:40].encode('unicode_escape').decode()} is not plain ASCII"


def _acting(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """The statements at top level that do something else than define names, or are for other uses of the file."""
    for statement in body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_unused = isinstance(statement, ast.If) and ast.unparse(statement.test) in _FALSE_ON_IMPORT
        if not (is_text or is_unused or type(statement).__name__ in _DEFINITIONS):
            yield statement.lineno, _ACTS
