"""The Python program in a text as models send it: in code fences or tags, as JSON, escaped once more, with a byte order
mark or typographic quotes.

A text that Python can parse is left alone, unless it only holds another program. Layers are removed one at a time, and
what is left counts only if Python can parse it.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable
from typing import Any

from codemode_server.executions.preflight.reading import parsed

_MAX_CHARACTERS = 16 * 1024
"""Longer texts only lose the indentation of all their lines: the other repairs read a text several times."""
_MAX_LAYERS = 8
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_SPACES = "\xa0\u2002\u2003\u2009\u202f\u3000"
_SUSPICIOUS = re.compile(
    rf"\A\s*(?:[`~<{{\"']|>>>|python|py\b)|\A[ \t\n]|\npython\s*\Z|```|~~~|[(=][ ]?\\[\"n]"
    rf"|\A[^\n]*[^\n:(\[{{,\\]\r?\n[ \t]+\S|[(=\[,{{:][ ]?[“”‘’]|\A[“‘]|[{_INVISIBLE}{_SPACES}]",
    re.IGNORECASE,
)
"""Matches each text that a repair below may change; nothing else is parsed."""
_INDENTED = re.compile(r"\A(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]+[^\s#]")
_STRING_OR_COMMENT = (
    r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#(?:(?!\\n)[^\n])*'
    r"|\\[\"']"
)
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_IN_ONE_LINE = re.compile(r"\A\s*(`+)(?:(?:python|py)3?\s)?([^`\n]+)\1\s*\Z", re.IGNORECASE)
_FENCE_LINE = re.compile(r"\A\s*(?:`{3,}|~{3,})\w*[ \t]*\n|\n[ \t]*(?:`{3,}|~{3,})\s*\Z")
_CODE_LINE = re.compile(
    r"\"\"\"|'''|^[ \t]*(?:import |from \S+ import |def |class |[\w.\[\]'\"]+ = |\w+\()", re.MULTILINE
)
_TAGS = re.compile(r"\A\s*<(?:(\w[\w:.-]*+)[^<>]*>(.*)</\1>|!\[CDATA\[(.*)\]\]>)\s*\Z", re.DOTALL)
_LABEL = re.compile(r"\A\s*(?:python|py)3?:?[ \t]*\n(?!\s*\Z)", re.IGNORECASE)
_LABEL_AT_END = re.compile(r"\n[ \t]*python\s*\Z", re.IGNORECASE)
_PYTHON = ("", "python", "python3", "py", "py3", "python-repl", "pycon", "ipython", "tool_code", "code")
_CODE_KEYS = ("code", "program", "script", "python", "source")
_ARGUMENT_KEYS = ("arguments", "args", "input", "params", "parameters")
_REMARKS = {"description", "language", "lang"}
"""Keys beside the program that change nothing about it; with another, such as `dry_run` or the name of a tool, the
object is no program."""


def may_hold_program(text: str) -> bool:
    """True if `as_python` may change the text."""
    if len(text) > _MAX_CHARACTERS:
        return _INDENTED.match(text) is not None
    is_one_line = "\\n" in text and "\n" not in text.strip()
    return is_one_line or _SUSPICIOUS.search(text) is not None


def as_python(text: str) -> str:
    """The program in the text; the text itself if that is Python, or nothing in it is."""
    if len(text) > _MAX_CHARACTERS:
        return textwrap.dedent(text) if may_hold_program(text) else text
    inner: str | None = text
    for _ in range(_MAX_LAYERS):
        if inner is None:
            break
        if (tree := _parsed(inner)) is None or _without_label(inner) != inner:
            inner = next((changed for repair in _REPAIRS if (changed := repair(inner)) not in (None, inner)), None)
        elif (contained := _contained(tree, inner)) is not None:
            inner = contained
        else:
            return inner
    return text


def _parsed(text: str) -> ast.Module | None:
    """The syntax tree, or None if there is none, or nothing in it."""
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if tree.body else None


def _contained(tree: ast.Module, text: str) -> str | None:
    """The program that a JSON text or object of Python holds; None if it is a program, or a value."""
    match tree.body:
        case [ast.Expr(ast.Constant(str()) | ast.Dict())]:
            inner = _from_json(text)
            return inner if inner is not None and _acts(as_python(inner)) else None
    return None


def _acts(text: str) -> bool:
    """True if the text does or computes something; `"2026-11-29"`, `"hello"` and `"a-b"` are texts."""
    tree = _parsed(text)
    if tree is None:
        return False
    kinds = {type(node) for node in ast.walk(tree)} - {ast.Module, ast.Expr}
    is_sum = " " in text and ast.BinOp in kinds and ast.Name not in kinds
    return is_sum or any(issubclass(kind, (ast.Call, ast.Await, ast.stmt)) for kind in kinds)


def _from_json(text: str) -> str | None:
    value: Any = None
    for read in (lambda it: json.loads(it, strict=False), ast.literal_eval):
        try:
            value = read(text.strip())
            break
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    while isinstance(value, dict):
        rest = {key for key, it in value.items() if key not in _REMARKS and it != "execute_code"}
        value = value[rest.pop()] if len(rest) == 1 and rest <= {*_CODE_KEYS, *_ARGUMENT_KEYS} else None
    return value if isinstance(value, str) else None


def _outside_of_strings(pattern: str, replacement: Callable[[re.Match[str]], str], text: str) -> str:
    return re.sub(
        rf"(?P<kept>{_STRING_OR_COMMENT})|{pattern}", lambda it: it[0] if it["kept"] else replacement(it), text
    )


def _without_invisible(text: str) -> str:
    return _outside_of_strings(
        f"[{_INVISIBLE}]|(?P<space>[{_SPACES}])", lambda it: " " if it["space"] else "", text.lstrip(_INVISIBLE)
    )


def _without_tags(text: str) -> str | None:
    return (match[2] or match[3]) if (match := _TAGS.match(text)) else None


def _from_fences(text: str) -> str | None:
    """The Python blocks, one after the other; None if the text around them is code, in whose strings they may be."""
    if (match := _IN_ONE_LINE.match(text)) is not None:
        return match[2].strip()
    blocks = list(_FENCE.finditer(text))
    if not blocks or _CODE_LINE.search(_FENCE.sub("", text)):
        return _FENCE_LINE.sub("", text)
    return "\n".join(textwrap.dedent(block[3]) for block in blocks if block[2].lower() in _PYTHON)


def _without_prompts(text: str) -> str | None:
    """The input of an interactive session, without its output."""
    lines = text.strip().splitlines()
    if not lines or not lines[0].startswith(">>>"):
        return None
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))


def _without_label(text: str) -> str:
    text = _LABEL.sub("", text)
    return _LABEL_AT_END.sub("", text) if text.lower().count("python") == 1 else text


def _flush_left(text: str) -> str:
    """The text without the indentation that all of it has, or all lines but the first."""
    first, end, rest = text.partition("\n")
    if first[:1] in (" ", "\t") or not first.strip():
        return textwrap.dedent(text)
    return text if first.rstrip().endswith((":", "(", "[", "{", ",", "\\")) else first + end + textwrap.dedent(rest)


def _unescaped(text: str) -> str:
    """The text with line ends and quotes that were escaped once more than needed."""
    try:
        inner = str(json.loads(f'"{text.strip()}"', strict=False))
    except ValueError:
        inner = ""
    lines = _outside_of_strings(r"(?:\\r)?\\n|(?P<tab>\\t)", lambda it: "\t" if it["tab"] else "\n", text)
    return next((it for it in (inner, lines) if _parsed(it) is not None), inner or lines)


def _with_plain_quotes(text: str) -> str:
    def quoted(match: re.Match[str]) -> str:
        inner = match[0][1:-1]
        return json.dumps(inner, ensure_ascii=False) if '"' in inner else f'"{inner}"'

    return _outside_of_strings("[“”][^“”\n]*[“”]|[‘’][^‘’\n]*[‘’]", quoted, text)


_REPAIRS: tuple[Callable[[str], str | None], ...] = (
    *(_without_invisible, _without_tags, _from_fences, _from_json, _without_prompts, _without_label, _flush_left),
    *(_unescaped, _with_plain_quotes),
)
