"""Advice on programs that Python cannot parse: names of tools and parameters (`from servers.everything import get-sum`,
`f(from="a")`), and the fence of a Markdown block. Such a program fails in any case; without advice Python explains."""

from __future__ import annotations

import keyword
import re

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.domain.errors import UnknownTool
from codemode_server.executions.preflight.call_checks import usage
from codemode_server.executions.preflight.findings import Finding
from codemode_server.executions.preflight.reading import parsed, text_of

FENCE = "```"
_MAX_MESSAGE = 300
_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+servers\.([\w-]+)[ \t]+import\b[ \t]*(\([^()]{0,2000}\)|[^\n#;(]*)", re.MULTILINE
)
_NAME = re.compile(r"[^\W\d][\w-]*")
_ARGUMENT = re.compile(rf"(\w+)(?:\.\w+)?\([^()]*?\b({'|'.join(keyword.kwlist)})\s*=(?!=)")


def syntax_findings(code: str, catalog: Catalog) -> list[Finding]:
    """Errors of a program that can't be parsed; empty if neither a fence nor a name is the reason.

    Raises ValueError and the like for a text that can't be looked at.
    """
    text = text_of(code)
    try:
        parsed(text)
    except SyntaxError as error:
        line = error.lineno or 1
    else:
        return []
    at_line = "".join(text.split("\n")[line - 1 : line])
    if at_line.lstrip().startswith(FENCE):
        return [Finding(line, f"not Python; leave out the {FENCE} lines", is_sure=True)]
    for match in _IMPORT.finditer(text):
        first = text.count("\n", 0, match.start(1)) + 1
        if first <= line <= first + match[0].count("\n") and (advice := _import_advice(match[1], match[2], catalog)):
            return [Finding(first, advice[:_MAX_MESSAGE], is_sure=True)]
    by_name = {tool.name: tool for tool in catalog.tools()}
    called = ((by_name[found[1]], found[2]) for found in _ARGUMENT.finditer(at_line) if found[1] in by_name)
    return [Finding(line, _argument_advice(word, tool), is_sure=True) for tool, word in called][:1]


def _import_advice(server_name: str, names: str, catalog: Catalog) -> str:
    """The import with the names that programs use; empty if the names are right."""
    try:
        server = catalog.by_name.get(server_name.replace("-", "_")) or catalog.server(server_name)

        def corrected(match: re.Match[str]) -> str:
            name = match[0]
            if name.isidentifier() and (name == "as" or not keyword.iskeyword(name)):
                return name
            return (server.by_name.get(name) or server.by_name.get(name.replace("-", "_")) or server.tool(name)).name

        right = _NAME.sub(corrected, names)
    except UnknownTool as error:
        return str(error)
    one_line = ", ".join(" ".join(name.split()) for name in right.strip("() \n").split(",") if name.strip())
    is_right = right == names and server.name == server_name
    return "" if is_right else f"not valid Python; write: from servers.{server.name} import {one_line}"


def _argument_advice(word: str, tool: Tool) -> str:
    is_keyword = f"{word!r} is a keyword of Python"
    for parameter in tool.parameters:
        if parameter.raw_name == word:
            return f"{is_keyword}; write {parameter.name}=… in {tool.name}()"
    return f"{is_keyword}, and {tool.name}() has no such argument. {usage(tool)}"
