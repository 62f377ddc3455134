"""Advice for missing modules and names, shared by the check and the sandbox."""

from __future__ import annotations

import sys
from difflib import get_close_matches

CODEMODE_NAMES = ("File", "ToolError", "call", "checkpoint", "results", "search_tools", "show")
"""Names that programs can import from `codemode`."""
NO_NETWORK = (
    "programs have no network; call a tool instead (search_tools finds it): from servers.<server> import <tool>"
)
NO_PROCESSES = (
    "programs can't start processes; use the standard library, or call a tool of a server (search_tools finds it)"
)
NO_HOST_FILES = (
    "the user's files are not in the sandbox, which has only /workspace (files stay) and /tmp; use a server's tool "
    "that reads or writes files (search_tools)"
)
TMP_IS_THE_SANDBOX_S = (
    "/tmp here is the sandbox's own and empty at each start (files in /workspace stay); "  # noqa: S108
    "a file of the user is read by a server's tool (search_tools)"
)
NO_TOOL_FILES = (
    "tools are modules: from servers.<server> import <tool>; os.listdir('/servers/<server>') has their names, and "
    "open('/servers/<server>/<tool>.py') their source"
)
NO_SKILL_FILES = (
    "skills are modules: from skills.<name> import <name>; open('/skills/<name>.py', 'w') saves one; "
    "os.listdir('/skills') lists them"
)
TOOLS_ARE_FUNCTIONS = "tools are functions: from servers.<server> import <tool> (search_tools finds it)"
NETWORK_MODULES = ("requests", "httpx", "aiohttp", "urllib3", "ssl", "websockets", "paramiko", "boto3")
_INSTEAD = {
    "pandas": "write rows = list(csv.DictReader(file)), and use statistics, sqlite3 and collections.Counter",
    "numpy": "write [f(x) for x in values], and use math, statistics (mean, stdev, linear_regression) and random",
    "yaml": "there is no YAML parser, but json and tomllib; a server may have a tool that reads YAML",
    "dateutil": "datetime.fromisoformat and zoneinfo cover much of what dateutil does",
    "pytz": "use zoneinfo",
    "bs4": "use html.parser",
    "markdown": "use markdown_it where markdown-it-py is there",
    "lxml": "use xml.etree.ElementTree or html.parser",
}
DISTRIBUTIONS = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "jwt": "pyjwt",
    "markdown_it": "markdown-it-py",
    "pptx": "python-pptx",
    "ruamel": "ruamel.yaml",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Well-known packages whose modules have another name, by that name; no such name is one of a package worth listing."""
_NAMED_AS_THEIR_MODULE = """
arrow html5lib icalendar jinja2 jsonschema lxml markdown matplotlib networkx numpy openpyxl orjson pandas pdfplumber
polars pyarrow pydantic pypdf pytz rapidfuzz regex reportlab rich scipy seaborn sympy tabulate tqdm unidecode xlrd
xlsxwriter xmltodict
"""
_NATIVE = """
Crypto PIL cv2 fitz jsonschema lxml matplotlib numpy orjson pandas pdfplumber polars pyarrow pydantic rapidfuzz regex
reportlab scipy seaborn skimage sklearn
"""
"""Modules of well-known packages that need native code."""
_TOOL_MODULES = ("client", "codemode", "servers", "skills", "tool_discovery", "workflows")
PACKAGES = ("servers", "codemode", "skills")
_LONGEST_MODULE = 30
_LEAST_SIMILARITY = 0.75
_VARIABLES = """
cmd code copyright email mailbox platform profile queue select site stat string symbol test this token types
"""
"""Modules of the standard library whose names programs give to variables as well."""
_DEFINING_MODULES = {
    "Any": "typing",
    "BytesIO": "io",
    "Counter": "collections",
    "Decimal": "decimal",
    "Path": "pathlib",
    "StringIO": "io",
    "ThreadPoolExecutor": "concurrent.futures",
    "dataclass": "dataclasses",
    "defaultdict": "collections",
    "deque": "collections",
    "groupby": "itertools",
    "reduce": "functools",
    "timedelta": "datetime",
    "timezone": "datetime",
}


def starts_fresh(last: str, content: str = "") -> str:
    """The hint for a name that an earlier program may have had; `last` is the name of the last result, or empty, and
    `content` what that holds."""
    if last:
        found = f'the last result is results["{last}"] (from codemode import results){content and f": {content}"}'
    else:
        found = "only files in /workspace stay"
    return f"each program starts fresh, with no name of an earlier one; {found}"


def tool_for_module(server: str, tool: str) -> str:
    """Advice if a tool is used as Python's module of its name; empty if there is no such module."""
    if tool not in sys.stdlib_module_names:
        return ""
    both = f"import {tool}; from servers.{server} import {tool} as {server}_{tool}"
    return f"{tool} is the tool of servers.{server} here; to use both, write: {both}"


def shadowed_module(name: str) -> str:
    """Advice for a file in /workspace with the name of a module that takes precedence."""
    owner = "the sandbox" if name in _TOOL_MODULES else "Python"
    return f"{name} is the name of a module of {owner}, so /workspace/{name}.py is never imported; rename the file"


def on_module(name: str, reason: str, *, can_be_added: bool = True) -> str | None:
    """Advice for a missing module, with the reason where that helps; None if nothing is known. `can_be_added`: the user
    could list its package."""
    root = name.partition(".")[0]
    if root in NETWORK_MODULES:
        return NO_NETWORK
    package = _distribution_of(root) if can_be_added else ""
    to_add = f"the user can add {package} to sandbox.packages in upstream.yaml" if package else ""
    if to_add and root in _NATIVE.split():
        to_add += ", which needs a microVM"
    if ways := [it for it in (_INSTEAD.get(root, ""), to_add) if it]:
        return f"{reason}; {', or '.join(ways)}"
    near = _near_module(root)
    if near in _TOOL_MODULES:
        return f"did you mean {near + name[len(root) :]!r}?"
    return f"did you mean {near!r}? {reason}" if near else None


def _distribution_of(root: str) -> str:
    """The name in the package index of the well-known package with this module; empty if none is known."""
    return DISTRIBUTIONS.get(root) or (root if root in _NAMED_AS_THEIR_MODULE.split() else "")


def _near_module(root: str) -> str:
    """The module that a misspelt one stands for, or empty; a hostile program may ask for many."""
    if root in sys.stdlib_module_names or len(root) > _LONGEST_MODULE:
        return ""
    known = (*_TOOL_MODULES, *(sys.stdlib_module_names - set(_VARIABLES.split())))
    alike = [it for it in known if it[0] == root[:1] and abs(len(it) - len(root)) <= 2]
    return next(iter(get_close_matches(root, sorted(alike), 1, _LEAST_SIMILARITY)), "")


def dotted(name: str) -> str:
    """`<server>.<tool>` for `mcp__<server>__<tool>`, as MCP hosts write, `<server>__<tool>`, or one with `/` or `:`."""
    server, mark, tool = (bare := name.removeprefix("mcp__")).partition("__")
    if mark and (bare != name or not any(it in server for it in "./:")):
        return f"{server}.{tool}"
    return bare if "." in bare else bare.replace(":", "/").replace("/", ".", 1)


def import_of(name: str, *, is_module: bool) -> str:
    """The import that defines a name that every sandbox has, or nothing; `is_module`: it is used as `name.…`."""
    if name in CODEMODE_NAMES:
        return f"from codemode import {name}"
    if name in _DEFINING_MODULES:
        return f"from {_DEFINING_MODULES[name]} import {name}"
    if name in PACKAGES:
        return f"import {name}"
    is_known = name in sys.stdlib_module_names and not name.startswith("_") and name not in _VARIABLES.split()
    return f"import {name}" if is_module and is_known else ""
