"""Imports that can't succeed: found before the first call of a program has had its effect.

A module is missing for certain only if the sandbox is known to have nothing but the standard library and the modules in
/workspace, and the program neither writes the module nor changes how modules are found. An import whose failure is
handled is not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from codemode_server.executions.preflight.exception_flow import Fates
from codemode_server.executions.preflight.exits import runs_for_certain
from codemode_server.executions.preflight.reading import Reading
from codemode_server.sandbox.guest.advice import CODEMODE_NAMES, on_module, shadowed_module
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.sandbox.importable import STANDARD

_RAISES = "ModuleNotFoundError"
_STANDARD_LIBRARY_ONLY = "only the standard library is available"
_KNOWN_FOR = {
    "MySQLdb": "mysql",
    "PyPDF2": "pdf",
    "asyncpg": "postgres",
    "boto3": "aws",
    "docx": "word",
    "fitz": "pdf",
    "googleapiclient": "google",
    "openpyxl": "excel",
    "pdfplumber": "pdf",
    "pptx": "powerpoint",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "pygit2": "git",
    "pymongo": "mongo",
    "pymysql": "mysql",
    "pypdf": "pdf",
    "xlrd": "excel",
    "xlsxwriter": "excel",
}
"""What packages are used for, where their name does not say it: a word of the server that does the same."""
_PREFIX_CHARACTERS = 5
"""A word of so many characters is also known as a beginning: `postgres` of postgresql, but not `git` of github."""
_MAX_SERVERS = 3
_FINDERS = frozenset({"path", "modules", "meta_path", "path_hooks", "addsitedir", "ModuleType"})
_MODULES_OF_SYS = frozenset({"modules", "meta_path"})
_FINDER_MODULES = frozenset({"sys", "site", "types", "importlib", "zipimport", "pkgutil"})
_PROGRAMS_OR_FINDERS = frozenset({"skills", "workflows", "importlib", "site", "zipimport"})
_MEMBERS = {"codemode": CODEMODE_NAMES, "client": ("call_mcp_tool",), "tool_discovery": ("search_tools",)}


@dataclass(frozen=True, slots=True)
class FailingImport:
    """An import that fails when it is reached."""

    node: ast.AST
    message: str
    raises: str
    is_reached: bool
    """Whether every run reaches it, unless an exception ends it before (`runs_for_certain`)."""


def imported_tools(reading: Reading) -> tuple[str, ...]:
    """The modules of servers and tools that a program imports by their names, such as `servers.github`."""
    found: dict[str, None] = {}
    for node in reading.nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        else:
            continue
        for root, server, *tool in (path.split(".") for path in paths if path.count(".") in (1, 2)):
            if root == "servers":
                found |= dict.fromkeys([f"servers.{server}", *(f"servers.{server}.{name}" for name in tool)])
    return tuple(found)


def failing_imports(
    reading: Reading,
    fates: Fates,
    importable: frozenset[str] | None,
    servers: Collection[str],
    why_no_skill: Callable[[str], str],
    is_saved: Callable[[str], bool],
) -> Iterator[FailingImport]:
    """The failing imports of a program.

    `importable` are the modules of the sandbox, None if they are not known; `servers` are the names of the servers;
    `why_no_skill` and `is_saved` are as for `Preflight`.
    """

    def is_missing(name: str) -> bool:
        is_known = importable is None or name in importable or name.startswith("_")
        return not is_known and not is_saved(name) and not _may_write(reading, name)

    changes_finders = any(_changes_finders(node, reading) for node in reading.nodes)
    makes_modules = any(isinstance(node, ast.Attribute) and node.attr in _MODULES_OF_SYS for node in reading.nodes)
    saves_skills = any(map(_may_save_skills, reading.nodes))
    for node in reading.nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom) or not fates.ends_the_program(node, _RAISES):
            continue
        message = _member_problem(node)
        if not message and not makes_modules and not saves_skills:
            message = next(filter(None, map(why_no_skill, _imported_skills(node))), "")
        raises = "ImportError"
        if not message and importable is not None and not changes_finders:
            message, raises = _module_problem(node, is_missing, servers), _RAISES
        if message:
            yield FailingImport(node, message, raises, runs_for_certain(reading, node))


def shadowed_imports(reading: Reading, is_saved: Callable[[str], bool]) -> Iterator[tuple[ast.AST, str]]:
    """Imports of a module that comes before the one of the same name in /workspace, each with a message."""
    for node in reading.nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name in dict.fromkeys(name.partition(".")[0] for name in _imported(node)):
            if name in STANDARD and is_saved(name):
                yield node, shadowed_module(name)


def _module_problem(
    node: ast.Import | ast.ImportFrom, is_missing: Callable[[str], bool], servers: Collection[str]
) -> str:
    for name in _imported(node):
        if name and is_missing(name.partition(".")[0]):
            return f"no module named {name!r}: {_in_place_of(name, servers)}"
    return ""


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that an import names."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names]


def _may_write(reading: Reading, name: str) -> bool:
    """Whether the texts of a program suggest that it writes the module to /workspace first."""
    texts = [it.value for it in reading.nodes if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    return any(f"{name}.py" in it or it.startswith(".py") or "__init__.py" in it for it in texts)


def _in_place_of(name: str, servers: Collection[str]) -> str:
    """What to do without a module: the server that is likely to do the same, or where else to look."""
    root = name.partition(".")[0]
    known = on_module(name, _STANDARD_LIBRARY_ONLY)
    if found := _servers_for(root, servers):
        return f"{known or _STANDARD_LIBRARY_ONLY}; {' or '.join(f'servers.{server}' for server in found)} may do it"
    if known is not None:
        return known
    if root in _KNOWN_FOR:
        return f"{_STANDARD_LIBRARY_ONLY}; search_tools finds tools"
    own = f"a module saved as /workspace/{root}.py could be imported"
    return f"{_STANDARD_LIBRARY_ONLY}; search_tools finds tools; {own}"


def _servers_for(root: str, servers: Collection[str]) -> list[str]:
    """The servers with a word in their name that a module has as its name, or is known for."""
    name = root.lower().removesuffix("_sdk").removesuffix("_client")
    word = _KNOWN_FOR.get(root, name)

    def is_meant(part: str) -> bool:
        return part == word or (len(word) >= _PREFIX_CHARACTERS and part.startswith(word))

    return [server for server in servers if any(map(is_meant, server.lower().split("_")))][:_MAX_SERVERS]


def _imported_skills(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Names of skills that an import needs: `from skills import a`, `from skills.a import b`, `import skills.a`."""
    if isinstance(node, ast.ImportFrom) and node.module == "skills" and not node.level:
        return [alias.name for alias in node.names if alias.name != "*" and not alias.name.startswith("__")]
    return [module.split(".")[1] for module in _imported(node) if module.startswith("skills.")]


def _member_problem(node: ast.Import | ast.ImportFrom) -> str:
    if not isinstance(node, ast.ImportFrom) or node.level or node.module not in _MEMBERS:
        return ""
    known = _MEMBERS[node.module]
    for alias in node.names:
        if alias.name != "*" and alias.name not in known and not alias.name.startswith("_"):
            meant = similar_name(alias.name, known)
            hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(known)}"
            return f"no {alias.name!r} in {node.module}; {hint}"
    return ""


def _changes_finders(node: ast.AST, reading: Reading) -> bool:
    """Whether a place may make other modules importable; skills are programs of their own, and may as well."""
    match node:
        case ast.Attribute(attr="path", value=ast.Name(id="os")):
            return False
        case ast.Attribute(attr=attr):
            return attr in _FINDERS or (attr == "sys" and _is_handed_on(node, reading))
        case ast.ImportFrom(module=module, names=names):
            is_finder = (module or "").partition(".")[0] in _FINDER_MODULES
            return module in ("skills", "workflows") or (
                is_finder and any(alias.name in (*_FINDERS, "*") for alias in names)
            )
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in _PROGRAMS_OR_FINDERS for alias in names)
        case ast.alias(name="sys", asname=str()):
            return True
        case ast.Name(id="sys"):
            return _is_handed_on(node, reading)
        case ast.Name(id=name):
            return name in ("exec", "eval", "__import__", "globals", "setattr", "builtins", "__builtins__")
    return False


def _may_save_skills(node: ast.AST) -> bool:
    """Whether a place may save a skill, which the program could import then."""
    match node:
        case ast.Attribute(attr="save") | ast.alias(name="save"):
            return True
        case ast.Constant(value=str(text)):
            return "skills" in text
    return False


def _is_handed_on(node: ast.AST, reading: Reading) -> bool:
    """Whether more than an attribute is read of the module `sys`: `getattr(sys, "path")`, `vars(sys)`."""
    parent = reading.parents.get(node)
    return not isinstance(parent, ast.Attribute) or parent.attr == "__dict__"
