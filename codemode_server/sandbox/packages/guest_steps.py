"""The steps of an installation that run inside a WASM sandbox: all sources are compiled, and each package is imported
on trial, to learn whether programs in WASM can use it.

Compiling imports nothing of a package. Each trial runs in an instance of its own, which has the folder read-only and
can ask the host for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import anyio
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Limits, Outcome, Program, SandboxBackend
from codemode_server.sandbox.packages.installed import GUEST_FOLDER
from codemode_server.sandbox.packages.unpacking import MAX_BYTES, Unpacked
from codemode_server.support.text import clean_line

_FILES_AT_ONCE = 400
_MAX_TRIED = 100
"""Modules of one package with native code that are imported on trial."""
_MAX_REASON_CHARACTERS = 200
_COMPILE = Limits(memory_mb=1024, wall_seconds=600, workspace_mb=2 * MAX_BYTES // 2**20)
_TRY = Limits(memory_mb=512, wall_seconds=20, workspace_mb=16)
_Failed = TypeAdapter(dict[str, tuple[str, str]])
"""The modules of a trial that failed: for each the reason, and the name of the module that was missing."""
_COMPILER = """
import importlib._bootstrap_external as external, importlib.util, json, os
for path in json.loads({files!r}):
    target = importlib.util.cache_from_source(f"/workspace/{{path}}")
    try:
        with open(f"/workspace/{{path}}", "rb") as file:
            source = file.read()
        code = external._code_to_hash_pyc(
            compile(source, f"{folder}/{{path}}", "exec", dont_inherit=True), importlib.util.source_hash(source), False
        )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # left to who imports it
"""
_TRIAL = """
import importlib, json
failed = {{}}
for name in json.loads({modules!r}):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failed[name] = f"it needs the module {{error.name!r}}, which the WASM sandbox does not have", error.name
    except BaseException as error:
        module = getattr(error, "name", None)
        failed[name] = f"{{type(error).__name__}}: {{error}}"[:500].rstrip(": "), module
{{name: (str(text)[:500], str(module)[:500]) for name, (text, module) in failed.items()}}
"""


async def compile_all(backend: SandboxBackend, folder: Path, packages: Sequence[Unpacked]) -> None:
    """Compile the sources in the folder. What can't be compiled is left as it is."""
    files = [path for it in packages for path in it.files if "/tests/" not in path]
    with anyio.move_on_after(_COMPILE.wall_seconds):
        for start in range(0, len(files), _FILES_AT_ONCE):
            chosen = json.dumps(files[start : start + _FILES_AT_ONCE])
            await _run(backend, _COMPILER.format(files=chosen, folder=GUEST_FOLDER), _COMPILE, folder)


async def obstacle(backend: SandboxBackend, package: Unpacked, packages: Sequence[Unpacked]) -> str:
    """Why programs in WASM can't import `package`, one of the backend's `packages`; empty if they can."""
    names = _names_to_try(package)
    outcome = await _run(backend, _TRIAL.format(modules=json.dumps(names)), _TRY)
    if outcome.error is not None:
        if outcome.error.setting == "limits.wall_seconds":
            return f"its import takes longer than {_TRY.wall_seconds:g} seconds"
        return clean_line(f"{outcome.error.type}: {outcome.error.message}", _MAX_REASON_CHARACTERS)
    try:
        failed = _Failed.validate_python(outcome.value)
    except ValidationError:
        return "its import disturbs the interpreter"
    if len(failed) * 2 <= len(names):
        return ""
    if package.is_native:
        return "it has native code, which the WASM sandbox can't run"
    reason, module = next(iter(failed.values()))
    for other in packages:
        if other.is_native and module.partition(".")[0] in other.modules:
            return f"it needs {other.wheel.name}, which has native code"
    return clean_line(reason, _MAX_REASON_CHARACTERS)


def _names_to_try(package: Unpacked) -> list[str]:
    """The package's top-level modules. With native code also its inner ones, of which at least half must work: the
    outer module of lxml, for instance, can be imported, but nothing in it."""
    public = sorted(it for it in package.modules if not it.startswith("_")) or sorted(package.modules)
    if not package.is_native:
        return public
    inner = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in package.files]
    inner = [it for it in inner if not any(part.startswith("_") or part == "tests" for part in it.split("."))]
    return list(dict.fromkeys([*public, *inner]))[:_MAX_TRIED]


async def _run(backend: SandboxBackend, code: str, limits: Limits, workspace: Path | None = None) -> Outcome:
    return await backend.run(Program(ExecutionId("packages"), code, limits, workspace), _NoHost())


class _NoHost:
    """Refuses all that a program can ask of the host."""

    async def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnknownTool("there is nothing to ask while packages are installed")

    call = read = resources = load = search = save_skill = show = artifact = _refuse
