"""What Python cannot parse: names of tools and parameters (`from servers.everything import get-sum`, `f(from="a")`),
and the fence of a Markdown block.

A name is corrected in the text, and is only spoken of if the program can be parsed then: so the name was what was
wrong, and nothing else was.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import TypeVar

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.domain.errors import UnknownTool
from codemode_server.executions.preflight.call_checks import usage
from codemode_server.executions.preflight.findings import Finding
from codemode_server.executions.preflight.name_checks import Form, Names
from codemode_server.executions.preflight.reading import Reading, parsed, text_of

_MAX_CORRECTIONS = 8
"""Limit per program, and for the attempts at each: each attempt parses text that may be hostile."""
_MAX_MESSAGE = 300
_IMPORT = re.compile(r"\bfrom[ \t]+servers\.([\w-]+)[ \t]+import\b[ \t]*(\([^()]{0,2000}\)|[^\n#;]*)")
_DASH = re.compile(r"(?<=\w)-(?=\w)")
_NAME = re.compile(r"[^\W\d][\w-]*")
_ARGUMENT = re.compile(rf"(?<=[(,\s])({'|'.join(keyword.kwlist)})(?=\s*=(?!=))")
_Found = TypeVar("_Found")
FENCE = "```"
_MARK = "_keyword_argument"
"""Stands behind a keyword in the corrected text, where no program has it by chance."""


def syntax_findings(code: str, catalog: Catalog) -> list[Finding]:
    """What is wrong with a program that can't be parsed; nothing if names are not the reason."""
    text = text_of(code)
    wrong = _error_in(text)
    found: list[Finding] = []
    if wrong is not None and _line(text, wrong.lineno or 0).lstrip().startswith(FENCE):
        return [Finding(wrong.lineno or 1, f"not Python; leave out the {FENCE} lines", is_sure=True)]
    for _ in range(_MAX_CORRECTIONS):
        if wrong is None:
            return sorted([*found, *_keyword_arguments(text, catalog)], key=lambda finding: finding.line)
        line = wrong.lineno or 0
        tries = chain(_corrected_imports(text, line, catalog), _corrected_arguments(text, line))
        for corrected, finding in islice(tries, _MAX_CORRECTIONS):
            still_wrong = _error_in(corrected)
            if still_wrong is None or _place(still_wrong) > _place(wrong):
                text, wrong = corrected, still_wrong
                found += [finding] if finding is not None else []
                break
        else:
            break
    return []


def _error_in(text: str) -> SyntaxError | None:
    """Raises as `parsed` does where a text can't be looked at."""
    try:
        parsed(text)
    except SyntaxError as error:
        return error
    return None


def _line(text: str, number: int) -> str:
    return "".join(text.split("\n")[number - 1 : number])


def _place(error: SyntaxError) -> tuple[int, int]:
    return error.lineno or 0, error.offset or 0


def _corrected_imports(text: str, line: int, catalog: Catalog) -> Iterator[tuple[str, Finding | None]]:
    """The text with the names of the import at a line as the catalog has them."""
    for match in _IMPORT.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        if not first <= line <= first + match[0].count("\n"):
            continue
        try:
            module, names = _python_names(match[1], match[2], catalog)
            message = f"not valid Python; write: from servers.{module} import {_one_line(names)}"
        except UnknownTool as error:
            module, names, message = _folded(match[1]), _DASH.sub("_", match[2]), str(error)
        corrected = f"{text[: match.start()]}from servers.{module} import {names}{text[match.end() :]}"
        yield corrected, Finding(first, message[:_MAX_MESSAGE], is_sure=True)


def _python_names(server_name: str, names: str, catalog: Catalog) -> tuple[str, str]:
    """The names of an import of tools as programs write them.

    Raises:
        UnknownTool: there is no such server; or a name that Python can't parse is no tool's.
    """
    server = _found(catalog.by_name, server_name) or catalog.server(server_name)

    def corrected(match: re.Match[str]) -> str:
        name = match[0]
        is_name = name.isidentifier() and (name == "as" or not keyword.iskeyword(name))
        return name if is_name else (_found(server.by_name, name) or server.tool(name)).name

    return server.name, _NAME.sub(corrected, names)


def _found(by_name: Mapping[str, _Found], name: str) -> _Found | None:
    """The server or tool of that name, or of that name with underscores."""
    return by_name.get(name) or by_name.get(_folded(name))


def _folded(name: str) -> str:
    return name.replace("-", "_")


def _one_line(names: str) -> str:
    return ", ".join(" ".join(name.split()) for name in names.strip("() \n").split(",") if name.strip())


def _corrected_arguments(text: str, line: int) -> Iterator[tuple[str, Finding | None]]:
    """The text with one keyword argument of a line marked; what is wrong with it is reported once all can be parsed."""
    lines = text.split("\n")
    for match in _ARGUMENT.finditer(lines[line - 1]) if line <= len(lines) else ():
        corrected = f"{match.string[: match.end()]}{_MARK}{match.string[match.end() :]}"
        yield "\n".join([*lines[: line - 1], corrected, *lines[line:]]), None


def _keyword_arguments(text: str, catalog: Catalog) -> Iterator[Finding]:
    reading = Reading(text)
    names = Names(reading, catalog)
    for node in reading.nodes:
        if not isinstance(node, ast.Call):
            continue
        target = names.target(node.func)
        tool = target.tool if isinstance(target, Form) else target
        for given in node.keywords:
            if given.arg is not None and given.arg.endswith(_MARK) and isinstance(tool, Tool):
                yield Finding(given.lineno, _message(given.arg.removesuffix(_MARK), tool), is_sure=True)


def _message(word: str, tool: Tool) -> str:
    said = f"{word!r} is a keyword of Python"
    for parameter in tool.parameters:
        if parameter.raw_name == word:
            return f"{said}; write {parameter.name}=… in {tool.name}()"
    return f"{said}, and {tool.name}() has no such argument. {usage(tool)}"
