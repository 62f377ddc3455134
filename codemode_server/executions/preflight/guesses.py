"""Names of tools as models guess them, such as `tools.u.x`, `mcp__u__x`, `client.call_tool("u.x")`, `from u import x`;
and texts in another language. Each is answered with the line of Python to write.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable
from functools import lru_cache

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.sandbox.guest.advice import (
    CODEMODE_NAMES,
    NETWORK_MODULES,
    NO_NETWORK,
    NO_PROCESSES,
    PACKAGES,
    TOOLS_ARE_FUNCTIONS,
)

_ROOTS = frozenset(
    [*("servers", "tools", "tool", "mcp", "mcp_client", "mcp_tools", "client", "session", "functions", "codemode")]
)
"""Names that programs reach tools by, of which each program has none but those it imports."""
_CALLERS = re.compile(r"call|invoke|tool|execute|run|request", re.IGNORECASE)
_SEPARATOR = re.compile(r"__|[./:]")
_NOT_A_WORD = re.compile(r"[\W_]")
_COMMENTS = re.compile(r"\A(?:\s*#[^\n]*\n)+")
_SHELL_SCRIPT = re.compile(r"\A\s*(?:[!%]|\$ |#![^\n]*sh\b)")
_MAX_IMPORTS = 3
_MAX_UNDERSCORES = 6
_MAX_WORDS = 200
_META_TOOLS = {
    "list_dir": (
        "list_dir is a tool beside execute_code; in a program: import servers; dir(servers), dir(servers.<server>)"
    ),
    "read_tool": "read_tool is a tool beside execute_code; in a program: help(<tool>)",
    "execute_code": "a program runs no other one; write its lines here",
}
_INSTEAD = {
    "write: import os; os.listdir('/servers') or os.listdir('/workspace'), open('/workspace/…').read()": (
        "ls cat pwd cd head tail find grep mkdir rm cp mv touch echo tree sed awk wc chmod"
    ),
    "a program can install nothing; the user can add packages to sandbox.packages in upstream.yaml": (
        "pip pip3 npm npx yarn uv uvx apt apt-get brew conda"
    ),
    NO_NETWORK: "curl wget ssh",
    NO_PROCESSES: "sh bash sudo which env export whoami uname ps kill git docker node python python3 make source",
}
_COMMANDS = {command: advice for advice, commands in _INSTEAD.items() for command in commands.split()}
_COMMAND = re.compile(r"\A\s*(?:[$#!%]+ ?)?([a-z][\w-]*)(?:(\s*)\Z|[ \t]+(?!=|[+*/<>%]\s|(?:in|is|and|or)\b)\S|\s*\n)")
_NOT_ALONE = frozenset(
    ["head", "tail", "find", "tree", "echo", "source", "make", "node", "which", "env", "export", "touch"]
)
"""Commands that programs use as names of variables, too."""
_FITTING = {
    "fetch|http|url|web_?page|crawl|scrape|download|browse": NETWORK_MODULES,
    "sql|csv|excel|spreadsheet|data_?frame|pandas": ("pandas", "polars"),
    "calculat|math|statistic|matrix": ("numpy", "scipy"),
}
"""Names of tools that do what modules do which programs lack."""
_CALL_AS_JSON = re.compile(
    r"\A\s*[{\[](?=[^()]*\"(?:tool|name|tool_name|method)\"\s*:\s*\")[^()]*"
    r"\"(?:arguments|args|params|parameters|input|jsonrpc)\"\s*:\s*[{\[\"]"
)
_CODE_AS_JSON = re.compile(r"\"code\"\s*:\s*\"")
_ARGUMENT_AS_JSON = re.compile(r"\"(?:dry_run|timeout|resume|apply)\"\s*:")
_PYTHON_LINE = re.compile(
    r"^[ \t]*(?:from [\w.]+ import |import [\w., ]+$|(?:async )?def \w|print\(|elif )", re.MULTILINE
)
_OTHER_LANGUAGE = re.compile(
    r"^[ \t]*(?:(?:export\s+)?(?:const|let|var|interface|async function|function)\b|//|/\*|#include"
    r"|import\s+(?:[\w*{][^'\"\n]*from\s+)?['\"]|(?:SELECT|INSERT\s+INTO|UPDATE\s.+\bSET|DELETE\s+FROM|CREATE)\b)"
    r"|=>|\brequire\(|console\.log|\}\s*(?:else|catch|finally)\b|;\s*\}",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of JavaScript, TypeScript, SQL or C, none of which Python can parse."""

_WORD = re.compile(r"\w++(?:[.:/-]\w++)*+[(\"]?")


def imports_of(guesses: Iterable[str], catalog: Catalog) -> str:
    """The imports of the tools, or of the server, that guessed names stand for: each dotted, or with `__`; or empty."""
    whole = list(guesses)
    words = [word for guess in whole for word in dict.fromkeys([guess, *_SEPARATOR.split(guess)]) if word]
    folded = {_folded(server.name): server for server in catalog.servers}
    named = [server for word in words if (server := folded.get(_folded(word)))]
    servers = {server.name for server in named}
    for guess in whole:
        parts = guess.split("_", _MAX_UNDERSCORES)
        for count in range(1, len(parts)):  # `my_shop_list_orders`
            if server := folded.get(_folded("".join(parts[:count]))):
                rest = _folded("".join(parts[count:]))
                for tool in _by_folded_name(catalog).get(rest, ()):
                    if tool.server == server.name:
                        return tool.import_line
    for word in reversed(words):
        tools = [it for it in _by_folded_name(catalog).get(_folded(word), ()) if not servers or it.server in servers]
        if tools := [it for it in tools if word in (it.name, it.raw_name)] or tools:
            return " or ".join(tool.import_line for tool in tools[:_MAX_IMPORTS])
    return f"from servers import {named[-1].name}" if named else ""


@lru_cache(maxsize=1)
def _by_folded_name(catalog: Catalog) -> dict[str, list[Tool]]:
    """The tools by their names without case and separators; a hostile program may guess thousands."""
    found: dict[str, list[Tool]] = {}
    for tool in catalog.tools():
        found.setdefault(_folded(tool.name), []).append(tool)
    return found


def _folded(name: str) -> str:
    return _NOT_A_WORD.sub("", name).lower()


def advice_on_member(name: str, catalog: Catalog) -> str:
    """Advice for a name that `servers` or `codemode` does not have; empty if nothing else has it."""
    if name in _META_TOOLS:
        return _META_TOOLS[name]
    if name in CODEMODE_NAMES:
        return f"write: from codemode import {name}"
    return f"write: {found}" if (found := imports_of([name], catalog)) else ""


def advice_on_name(path: ast.expr, call: ast.Call | None, catalog: Catalog) -> str:
    """Advice for an undefined name; `path` is the longest `name.a.b` that begins with it, `call` what calls that."""
    parts = ast.unparse(path).split(".")
    root, last = parts[0], parts[-1]
    if root in _META_TOOLS or root in CODEMODE_NAMES:
        return advice_on_member(root, catalog)
    if root in catalog.by_name:
        return f"write: from servers import {root}"
    texts: list[str] = []
    if call is not None and _CALLERS.search(last):
        values = [*call.args[:2], *(keyword.value for keyword in call.keywords[:4])]
        texts = [it.value for it in values if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    is_guess = root in _ROOTS or "__" in root or _CALLERS.search(root) or "_" in last.strip("_")
    guesses = [*parts, *texts] if is_guess else [root, last] if imports_of([root], catalog) else []
    found = imports_of(guesses or [root], catalog)
    if found:
        return f"write: {found}"
    if root in PACKAGES:
        return f"write: import {root}"
    return TOOLS_ARE_FUNCTIONS if root in _ROOTS or texts else ""


def other_language(text: str, catalog: Catalog, undefined: Container[str] | None = None) -> str:
    """A line for a text in another language, or empty; `undefined` are names of a text that Python can parse."""
    match = _COMMAND.match(_COMMENTS.sub("", text))
    command = match[1] if match and not (match[2] is not None and match[1] in _NOT_ALONE) else ""
    if text.lstrip().startswith("{") and _CODE_AS_JSON.search(text) and _ARGUMENT_AS_JSON.search(text):
        return "programs are Python; give the members of the object as arguments of execute_code"
    if undefined is not None and not (command in undefined or "console" in undefined or _CALL_AS_JSON.match(text)):
        return ""
    if command in _COMMANDS or _SHELL_SCRIPT.match(text):
        found = imports_of([command], catalog)
        return f"programs are Python, not shell; {f'write: {found}' if found else _COMMANDS.get(command, NO_PROCESSES)}"
    if not (_OTHER_LANGUAGE.search(text) or _CALL_AS_JSON.match(text)) or _PYTHON_LINE.search(text):
        return ""
    words = [it.rstrip('("') for it in _WORD.findall(text) if "__" in it or not it.isidentifier()][:_MAX_WORDS]
    found = next((line for word in words if (line := imports_of([word], catalog)).startswith("from servers.")), "")
    return f"programs are Python; {f'write: {found}' if found else TOOLS_ARE_FUNCTIONS}"


def fitting_tools(module: str, catalog: Catalog) -> str:
    """The imports of tools that may do what a missing module does; empty if none seems to."""
    pattern = next((pattern for pattern, modules in _FITTING.items() if module in modules), "")
    if not pattern:
        return ""
    fits = re.compile(pattern, re.IGNORECASE)
    lines = [tool.import_line for tool in catalog.tools() if fits.search(tool.name)]
    return " or ".join(lines[:_MAX_IMPORTS])
