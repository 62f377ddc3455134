"""The modules that only exist in the sandbox: `codemode`, `tool_discovery`, `client`, and on demand `servers`, `skills`
and `workflows`.

A server or a tool is asked of the host when a program names it, one module at a time. In a package, a tool's name is
always the function, also after its module was imported.
"""

from __future__ import annotations

import errno
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import pathlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from .advice import dotted, on_module, shadowed_module
from .attachments import make_show
from .calls import Calls, Resources, ToolError
from .earlier_programs import Checkpoint, Results
from .files import File
from .link import PROGRAM_FILE, Link
from .program_paths import ProgramPaths
from .source import compile_skill
from .stubs import Stub, stub_decorator
from .tables import kinds_of, plain
from .value_descriptions import is_json
from .values import Unfinished, resolve

FOLDER = "/workspace"
_TABLES = {"numpy.generic", "numpy.ndarray", "pandas.DataFrame", "pandas.Series"}
"""What `json.dumps` takes as well: a sum of a column is a number of numpy's."""
PACKAGES_FOLDER = "/packages"
"""The packages that the person lists, where there are any: on `sys.path`, read-only."""
_CHARACTERS_PER_TOKEN = 4


PROGRAM_FILES: set[str] = {PROGRAM_FILE}
"""Files whose lines may show in a traceback: the program's own, the skills' and those of modules in /workspace."""
_NOT_FROM_WORKSPACE = (f"{PACKAGES_FOLDER}/", "skills/")
"""Files whose code imports nothing from /workspace. Otherwise a program could leave a module there that a package
imports only if it exists, and so change what the package does in all later programs."""
_ROOTS = ("servers", "skills", "workflows")
_PROGRAMS = ("skills.", "workflows.")
"""Modules below these are programs: as objects they can be called like the function of their own name."""


class _Package(types.ModuleType):
    """`servers`, `servers.<server>`, `skills` or `workflows`: its members come from the host when they are named."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return list(self.__loader__.names(self.__name__))  # type: ignore[union-attr]
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            importlib.import_module(f"{self.__name__}.{name}")
        except ImportError as error:
            raise AttributeError(str(error)) from None
        return self.__dict__[name]

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system puts a submodule into its package; a tool's name has to stay the function.
        if isinstance(value, types.ModuleType) and isinstance(stub := value.__dict__.get(name), (Stub, Resources)):
            value = stub
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)


class _Skill(types.ModuleType):
    """A saved program; as an object it can be called like the function of its own name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Listing:
    def __init__(self, modules: HostModules, package: str) -> None:
        self._modules = modules
        self._package = package

    def iter_modules(self, prefix: str = "") -> list[tuple[str, bool]]:
        return [(prefix + name, self._package == "servers") for name in self._modules.names(self._package)]


class HostModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `servers.*`, `skills.*` and `workflows.*` at the host."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._descriptions: dict[str, dict[str, Any]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in _ROOTS:
            return None
        # The roots exist whatever the host has; asking for them would cost each program a round trip.
        is_package = fullname in _ROOTS or self.description(fullname)["kind"] == "package"
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package, origin=_file_of(fullname))

    def add(self, descriptions: dict[str, dict[str, Any]]) -> None:
        """Take in what the host sent with the program; a package's names may be missing."""
        self._descriptions.update(descriptions)

    def source(self, module: str) -> str:
        """The text of a skill or tool; raises `FileNotFoundError` if there is none."""
        try:
            description = self.description(module)
        except ImportError as error:
            raise FileNotFoundError(errno.ENOENT, str(error), f"/{_file_of(module)}") from None
        text: str = description.get("source", "")
        return text

    def listed(self, package: str) -> list[str]:
        """The members of `servers`, of a server or of `skills` as a folder has them; raises `FileNotFoundError`."""
        try:
            names = self.names(package)
        except ImportError as error:
            raise FileNotFoundError(errno.ENOENT, str(error), f"/{package.replace('.', '/')}") from None
        return [*names] if package == "servers" else [f"{name}.py" for name in names]

    def forget(self, skill: str) -> None:
        for name in ("skills", f"skills.{skill}"):
            self._descriptions.pop(name, None)
        sys.modules.pop(f"skills.{skill}", None)
        if (package := sys.modules.get("skills")) is not None:
            package.__dict__.pop(skill, None)

    def description(self, fullname: str) -> dict[str, Any]:
        if fullname not in self._descriptions:
            self._descriptions[fullname] = self._load(fullname)
        return self._descriptions[fullname]

    def names(self, package: str) -> list[str]:
        if "names" not in self.description(package):
            self._descriptions[package] = self._load(package)
        names: list[str] = self._descriptions[package]["names"]
        return names

    def _load(self, fullname: str) -> dict[str, Any]:
        value: dict[str, Any] = self._link.ask("load", functools.partial(ImportError, name=fullname), module=fullname)
        return value

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        if spec.submodule_search_locations is None:
            return _Skill(spec.name) if spec.name.startswith(_PROGRAMS) else None
        package = _Package(spec.name, self._descriptions.get(spec.name, {}).get("doc"))
        if spec.name == "servers":
            package.tool = sys.modules["codemode"].__tool__
            package.Resources = sys.modules["codemode"].__resources__
            package.ToolError = ToolError
            package.File = File
        package.__path__ = [f"/{spec.name.replace('.', '/')}"]
        sys.path_importer_cache[package.__path__[0]] = _Listing(self, spec.name)  # type: ignore[assignment]
        return package

    def exec_module(self, module: types.ModuleType) -> None:
        if isinstance(module, _Package):
            return
        name = module.__name__
        source = self._descriptions[name]["source"]
        file = _file_of(name)
        code = None
        if name.startswith(_PROGRAMS):
            PROGRAM_FILES.add(file)
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            code = compile_skill(source, file)
        module.__file__ = file
        # Annotations of a stub are texts, since this file's are.
        exec(code or compile(source, file, "exec"), module.__dict__)  # noqa: S102 - an import does that
        if isinstance(member := module.__dict__.get(name.rpartition(".")[2]), Resources):
            module.__dict__["__getattr__"] = functools.partial(
                getattr, member
            )  # `from servers.docs.resources import read`


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles the text each time: no compiled file is read, and none is left in /workspace."""

    def get_code(self, fullname: str) -> types.CodeType:
        PROGRAM_FILES.add(self.path)
        code: types.CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


class LastModules(importlib.abc.MetaPathFinder):
    """The finder after all others: modules in /workspace, and what to do about one that is missing."""

    def __init__(self, advice: str) -> None:
        self._advice = advice

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        folder = FOLDER if path is None else next((it for it in path if it.startswith(f"{FOLDER}/")), None)
        if path is None and _must_not_ask_workspace():
            folder = None
        if folder is not None and (spec := _spec_in(folder, fullname, is_root=path is None)) is not None:
            return spec
        root = fullname.partition(".")[0]
        if path is not None or root.startswith("_") or root in sys.modules or _is_only_looked_for():
            return None
        advice = on_module(fullname, self._advice) or self._advice
        raise ModuleNotFoundError(f"No module named {fullname!r}: {advice}", name=fullname)


def _must_not_ask_workspace() -> bool:
    """True if the code that asks for a module, itself or by a function of the standard library, such as
    `importlib.import_module` or `exec`, is that of a package or skill."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_NOT_FROM_WORKSPACE):
            return True
        if file in PROGRAM_FILES:
            return False
        frame = frame.f_back
    return False


def _is_only_looked_for() -> bool:
    """True for `importlib.util.find_spec`, which gives None for a module that is not there."""
    asking = sys._getframe(3)  # over `LastModules.find_spec` and that which goes through the finders
    return asking.f_code.co_name == "find_spec"


def _spec_in(folder: str, fullname: str, *, is_root: bool) -> importlib.machinery.ModuleSpec | None:
    name = fullname.rpartition(".")[2]
    file = pathlib.Path(folder, name, "__init__.py")
    if not (is_package := file.is_file()) and not (file := pathlib.Path(folder, f"{name}.py")).is_file():
        return None
    if is_root and fullname in sys.stdlib_module_names:  # which this sandbox lacks
        raise ModuleNotFoundError(f"No module named {fullname!r}: {shadowed_module(fullname)}", name=fullname)
    folders = [str(file.parent)] if is_package else None
    loader = _Source(fullname, str(file))
    return importlib.util.spec_from_file_location(
        fullname, str(file), loader=loader, submodule_search_locations=folders
    )


def install(link: Link, calls: Calls, *, advice: str) -> HostModules:
    """Make the sandbox's own modules importable; gives the finder of those that the host has."""
    for public in (ToolError, File):
        public.__module__ = "codemode"  # as the program knows them, also in its tracebacks

    def call(server: str, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
        """Call a tool by names known only at run time."""
        return calls.call(server, tool, {**(arguments or {}), **more}, sys._getframe(1))

    def search_tools(
        query: str = "",
        detail_level: str = "with_description",
        server: str | None = None,
        limit: int = 10,
        effect: str | None = None,
    ) -> list[Any]:
        """Search the tools of all servers; `detail_level` is name_only, with_description, full or scaffold (with a
        program to start from), `effect` is reads,
        writes or destroys."""
        asked = {"query": query, "detail_level": detail_level, "server": server, "limit": limit, "effect": effect}
        found = list(link.ask("search", ValueError, **asked))
        return [it["name"] for it in found] if detail_level == "name_only" else found

    def call_mcp_tool(name: str, arguments: dict[str, Any] | None = None, type: Any = None) -> Any:  # noqa: A002
        """Call `<server>.<tool>`, `<server>__<tool>` or `mcp__<server>__<tool>`."""
        server, _, tool = dotted(name).partition(".")
        if not tool:
            fitting = [
                f"{it['server']}.{it['name']}" for it in search_tools(name, limit=3) if it["server"] not in _ROOTS
            ]
            raise ValueError(f"{name!r} names no server; write {' or '.join(fitting) or '<server>.<tool>'}")
        return calls.call(server, tool, arguments or {}, sys._getframe(1))

    class Client:
        """The calls of this program; `with` and `async with` open and close nothing."""

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        call_tool = staticmethod(call_mcp_tool)
        call_count = property(lambda _: link.call_count)
        total_tokens = property(
            lambda _: link.call_characters // _CHARACTERS_PER_TOKEN, doc="Those of calls: estimated."
        )

    _module(
        "codemode",
        "What is beside the tools: what they give and raise, show, results of earlier programs, and the checkpoint.",
        ToolError=ToolError,
        File=File,
        search_tools=search_tools,
        call=call,
        show=make_show(link),
        results=Results(link),
        checkpoint=Checkpoint(link),
        __tool__=stub_decorator(calls),
        __resources__=functools.partial(Resources, calls),
    )
    _module("tool_discovery", "Another name for codemode.search_tools.", search_tools=search_tools)
    _module("client", "Calls by the name that MCP hosts give to tools.", call_mcp_tool=call_mcp_tool, get_client=Client)
    json.JSONEncoder.default = _json_default  # type: ignore[assignment,method-assign]
    json.loads = _lenient(json.loads)
    host_modules = HostModules(link)
    link.program_paths = ProgramPaths(link, host_modules.source, host_modules.forget, host_modules.listed)
    link.program_paths.install()
    sys.meta_path.insert(0, host_modules)
    sys.meta_path.append(LastModules(advice))
    sys.dont_write_bytecode = True  # no compiled files in /workspace
    return host_modules


def _lenient(loads: Callable[..., Any]) -> Callable[..., Any]:
    """`json.loads` that also takes results: most are parsed already, and some hold a JSON text as their only value."""

    @functools.wraps(loads)
    def lenient(s: Any, **options: Any) -> Any:
        s = resolve(s)
        if isinstance(s, File):
            s = s.text
        if isinstance(s, dict) and len(s) == 1 and isinstance(text := next(iter(s.values())), str) and is_json(text):
            s = text
        return s if isinstance(s, dict | list | int | float | None) else loads(s, **options)

    return lenient


def _json_default(self: json.JSONEncoder, value: object) -> object:
    if isinstance(value, Unfinished):
        return resolve(value)
    if kinds_of(value) & _TABLES and (made := plain(value)) is not value:
        return made
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _module(name: str, doc: str, **members: Any) -> None:
    module = types.ModuleType(name, doc)
    module.__dict__.update(members)
    sys.modules[name] = module


def _file_of(fullname: str) -> str:
    return fullname.replace(".", "/") + ".py"
