"""Imports that fail, recognized before the first call of a program has had its effect.

A module is missing only if the sandbox is known to have nothing but the standard library, packages that are known, and
the modules in /workspace, and the program neither writes the module nor changes how modules are found.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator

from codemode_server.catalog.catalog import Catalog
from codemode_server.executions.preflight.guesses import advice_on_member, fitting_tools, imports_of
from codemode_server.executions.preflight.reading import Reading, imported_modules
from codemode_server.sandbox.guest.advice import (
    CODEMODE_NAMES,
    TOOLS_ARE_FUNCTIONS,
    on_module,
    shadowed_module,
)
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.sandbox.importable import STANDARD
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.support.text import first_few

_MAX_SERVERS = 3
_MAX_MODULES = 20
_MCP_MODULES = ("mcp", "fastmcp", "mcp_client", "mcp_tools", "tools", "modelcontextprotocol")
_CHANGES_FINDERS = re.compile(
    r"\bsys\.(?:path|modules|meta_path|path_hooks|__dict__)|\(\s*sys\s*[,)]|from sys import|import sys as|importlib"
    r"|addsitedir|zipimport|pkgutil|ModuleType|\bexec\b|\beval\b|__import__|globals|setattr|builtins|skills|workflows"
)
"""Text of a program that may change which modules can be imported; skills may as well."""
_SAVES_SKILLS = re.compile(r"\.save\b|import\b.*\bsave\b|['\"].*skills|sys\.(?:modules|meta_path)")
_MEMBERS = {"codemode": CODEMODE_NAMES, "client": ("call_mcp_tool", "get_client"), "tool_discovery": ("search_tools",)}
_Import = ast.Import | ast.ImportFrom


def imported_tools(reading: Reading) -> tuple[str, ...]:
    """The modules of servers and tools that a program imports by their names, such as `servers.github`."""
    found: dict[str, None] = {}
    for node in reading.nodes:
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for path in paths:
            if path.startswith("servers.") and path.count(".") in (1, 2):
                server = path.split(".")[1]
                found |= dict.fromkeys((f"servers.{server}", path))
    return tuple(found)


def failing_imports(
    reading: Reading,
    importable: frozenset[str] | None,
    catalog: Catalog,
    why_no_skill: Callable[[str], str] | None,
    is_saved: Callable[[str], bool],
    packages: Packages,
) -> Iterator[tuple[_Import, str]]:
    """Imports that fail when they are reached, each with a message. `importable` are the modules of the sandbox, None
    if they are not known, and `packages` provides some of these; `catalog` has the servers and tools;
    `why_no_skill` and `is_saved` are as for `Preflight`."""
    texts = [it.value for it in reading.nodes if isinstance(it, ast.Constant) and isinstance(it.value, str)]

    def is_missing(name: str) -> bool:
        if importable is None or name in importable or name.startswith("_") or is_saved(name):
            return False
        return not any(f"{name}.py" in text or text.startswith(".py") or "__init__.py" in text for text in texts)

    changes_finders = importable is None or _CHANGES_FINDERS.search(reading.text) is not None
    saves_skills = _SAVES_SKILLS.search(reading.text) is not None
    for node in reading.nodes:
        if not isinstance(node, _Import):
            continue
        message = _member_problem(node, catalog)
        if not message and not saves_skills:
            message = next(filter(None, map(why_no_skill, _imported_skills(node))), "") if why_no_skill else ""
        if not message and not changes_finders:
            missing = next((name for name in imported_modules(node) if name and is_missing(name.partition(".")[0])), "")
            message = (
                missing and f"no module named {missing!r}: {_in_place_of(missing, node, importable, catalog, packages)}"
            )
        if message:
            yield node, message


def shadowed_imports(reading: Reading, is_saved: Callable[[str], bool]) -> Iterator[tuple[ast.AST, str]]:
    """Imports of a module that comes before the one of the same name in /workspace, each with a message."""
    for node in reading.nodes:
        if isinstance(node, _Import):
            for name in dict.fromkeys(name.partition(".")[0] for name in imported_modules(node)):
                if name in STANDARD and is_saved(name):
                    yield node, shadowed_module(name)


def _in_place_of(
    name: str, node: _Import, importable: frozenset[str] | None, catalog: Catalog, packages: Packages
) -> str:
    """Advice for a missing module: why its package can't be used, a tool or a server with its name, or where else to
    look."""
    root = name.partition(".")[0]
    members = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
    if found := next((it for member in members or [""] if (it := imports_of([name, member], catalog))), ""):
        return f"write: {found}"
    if root in _MCP_MODULES:
        return TOOLS_ARE_FUNCTIONS
    if found := _module_of(root, packages):
        return f"write: import {found}"
    obstacle = _obstacle(root, packages)
    only = obstacle or _what_is_there(importable, packages)
    advice = on_module(name, only, can_be_added=not obstacle)
    if found := fitting_tools(root, catalog):
        return f"{(advice or only).partition('; call a tool')[0]}; or a tool: {found}"
    word = root.lower().removesuffix("_sdk").removesuffix("_client")
    near = [server.name for server in catalog.servers if word in server.name.lower().split("_")][:_MAX_SERVERS]
    if near:
        return f"{advice or only}; {' or '.join(f'servers.{server}' for server in near)} may do it"
    own = f"a module saved as /workspace/{root}.py could be imported"
    return advice or f"{only}; search_tools finds tools{'' if obstacle else f'; {own}'}"


def _what_is_there(importable: frozenset[str] | None, packages: Packages) -> str:
    modules = packages.modules(in_wasm=False) & (importable or frozenset())
    shown = sorted(it for it in modules if not it.startswith("_"))
    there = f"the standard library and {first_few(shown, _MAX_MODULES)} are" if shown else "the standard library is"
    return f"only {there} available"


def _module_of(root: str, packages: Packages) -> str:
    """The module to import if `root` is the package's name in the index, such as `beautifulsoup4`; empty if not."""
    for package in packages.installed:
        if package.name.lower().replace("-", "_") == root.lower() and root not in package.modules:
            return next((it for it in package.modules if not it.startswith("_")), "")
    return ""


def _obstacle(root: str, packages: Packages) -> str:
    """Why the package of a module can't be used, or why no listed package can; empty if neither is known."""
    for package in packages.installed:
        if root in package.modules and package.wasm_obstacle:
            return f"{package.name} can't be imported without a microVM: {package.wasm_obstacle}"
    is_standard = root in sys.stdlib_module_names
    if not packages.problem or is_standard:
        return ""
    remedy = f" (for the user: {packages.remedy})" if packages.remedy else ""
    return f"the user's packages are not installed: {packages.problem}{remedy}"


def _imported_skills(node: _Import) -> list[str]:
    """Names of skills that an import needs: `from skills import a`, `from skills.a import b`, `import skills.a`."""
    if isinstance(node, ast.ImportFrom) and node.module == "skills" and not node.level:
        return [alias.name for alias in node.names if alias.name != "*" and not alias.name.startswith("__")]
    return [module.split(".")[1] for module in imported_modules(node) if module.startswith("skills.")]


def _member_problem(node: _Import, catalog: Catalog) -> str:
    if not isinstance(node, ast.ImportFrom) or node.level or node.module not in _MEMBERS:
        return ""
    members = _MEMBERS[node.module]
    for alias in node.names:
        if alias.name != "*" and alias.name not in members and not alias.name.startswith("_"):
            meant = similar_name(alias.name, members)
            hint = (
                f"did you mean {meant!r}?"
                if meant
                else advice_on_member(alias.name, catalog) or f"it has {', '.join(members)}"
            )
            return f"no {alias.name!r} in {node.module}; {hint}"
    return ""
