"""Saved programs, importable as `skills.<name>`: finding and reading them. People put them there; programs can't."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.skills import Skill
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.text import clean_line

_MAX_BYTES = 256 * 1024
_SIGNATURE_CHARACTERS = 240


class Skills:
    """The folder of saved programs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[_Stamp, Skill]] = {}

    def names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(
            path.stem
            for path in self._folder.glob("*.py")
            if path.stem.isidentifier() and not path.stem.startswith("_") and path.is_file() and not path.is_symlink()
        )

    def entries(self) -> list[Skill]:
        """Every skill; read anew only if its file changed."""
        found: dict[str, tuple[_Stamp, Skill]] = {}
        for name in self.names():
            stamp, known = self._stamp(name), self._known.get(name)
            found[name] = known if known is not None and known[0] == stamp else (stamp, self._read(name))
        self._known = found
        return [skill for _, skill in found.values()]

    def source(self, name: str) -> str:
        """The text of a skill.

        Raises:
            UnknownTool: there is none of that name; names the nearest.
        """
        if problem := self.why_missing(name):
            raise UnknownTool(problem)
        return self._source(name)

    def why_missing(self, name: str) -> str:
        """An error that there is no such skill, with the nearest name; empty if it exists."""
        if name in (names := self.names()):
            return ""
        meant = similar_name(name, names)
        others = f"there are: {', '.join(names[:20])}" if names else "no skills are saved yet"
        return f"there is no skill {name!r}; {f'did you mean {meant}?' if meant else others}"

    def _stamp(self, name: str) -> _Stamp:
        """A fingerprint that changes with the file."""
        try:
            found = (self._folder / f"{name}.py").stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self, name: str) -> Skill:
        try:
            return _skill(name, self._source(name))
        except MetaToolError as error:  # one bad file hides no other
            return Skill(name, f"({error})")

    def _source(self, name: str) -> str:
        path = self._folder / f"{name}.py"
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise MetaToolError(f"skills/{name}.py is larger than {_MAX_BYTES // 1024} KiB")
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MetaToolError(f"skills/{name}.py can't be read: {error}") from error


def _skill(name: str, source: str) -> Skill:
    try:
        module = ast.parse(source)
        docstring = ast.get_docstring(module) or ""
        functions = {function.name: function for function in _functions(module)}
        function = functions.get(name) or next(iter(functions.values()), None)
        signature = _signature(function) if function else ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Skill(name, "(not valid Python)")
    return Skill(name, clean_line(docstring.partition("\n")[0], 120), function.name if function else "", signature)


def _functions(module: ast.Module) -> Iterator[_Function]:
    """The public functions at top level."""
    for statement in module.body:
        if isinstance(statement, _Function) and not statement.name.startswith("_"):
            yield statement


def _signature(function: _Function) -> str:
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return clean_line(f"{function.name}({ast.unparse(function.args)}){returned}", _SIGNATURE_CHARACTERS)


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Stamp = tuple[int, int, int]
