"""Imports of modules that programs saved: `import helpers` for /workspace/helpers.py or /workspace/helpers/__init__.py.

The standard library and our own modules come first: a file of the same name is never imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from collections.abc import Sequence

from .advice import shadowed_module

FOLDER = "/workspace"


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles the text each time: no compiled file is read, and none is left in /workspace."""

    def __init__(self, fullname: str, path: str, program_files: set[str]) -> None:
        super().__init__(fullname, path)
        self._program_files = program_files

    def get_code(self, fullname: str) -> types.CodeType:
        self._program_files.add(self.path)
        code: types.CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


class WorkspaceModules(importlib.abc.MetaPathFinder):
    """A finder after all others; adds the files that it finds to `program_files`, whose lines show in tracebacks."""

    def __init__(self, program_files: set[str]) -> None:
        self._program_files = program_files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        folder = FOLDER if path is None else next((it for it in path if it.startswith(f"{FOLDER}/")), None)
        if folder is None:
            return None
        name = fullname.rpartition(".")[2]
        file = pathlib.Path(folder, name, "__init__.py")
        if not (is_package := file.is_file()) and not (file := pathlib.Path(folder, f"{name}.py")).is_file():
            return None
        if path is None and fullname in sys.stdlib_module_names:  # which this sandbox lacks
            raise ModuleNotFoundError(f"No module named {fullname!r}: {shadowed_module(fullname)}", name=fullname)
        return importlib.util.spec_from_file_location(
            fullname,
            str(file),
            loader=_Source(fullname, str(file), self._program_files),
            submodule_search_locations=[str(file.parent)] if is_package else None,
        )
