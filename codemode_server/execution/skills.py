"""Saved programs, importable as `skills.<name>`: finding and reading them. People put them there; programs can't."""

from __future__ import annotations

import ast
from difflib import get_close_matches
from pathlib import Path

from codemode_server.errors import MetaToolError, UnknownTool
from codemode_server.model import Skill
from codemode_server.text import clean_line

_MAX_BYTES = 256 * 1024


class Skills:
    """The folder of saved programs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(
            path.stem
            for path in self._folder.glob("*.py")
            if path.stem.isidentifier() and not path.stem.startswith("_") and path.is_file() and not path.is_symlink()
        )

    def entries(self) -> list[Skill]:
        return [Skill(name, self._summary(name)) for name in self.names()]

    def source(self, name: str) -> str:
        """The text of a skill.

        Raises:
            UnknownTool: there is none of that name; names the nearest.
        """
        if name not in (names := self.names()):
            near = get_close_matches(name, names, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names[:20]) or 'none'}"
            raise UnknownTool(f"there is no skill {name!r}; {hint}")
        return self._source(name)

    def _summary(self, name: str) -> str:
        try:
            return _summary(self._source(name))
        except MetaToolError as error:  # one bad file hides no other
            return f"({error})"

    def _source(self, name: str) -> str:
        path = self._folder / f"{name}.py"
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise MetaToolError(f"skills/{name}.py is larger than {_MAX_BYTES // 1024} KiB")
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MetaToolError(f"skills/{name}.py can't be read: {error}") from error


def _summary(source: str) -> str:
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except (SyntaxError, ValueError, RecursionError):
        return "(not valid Python)"
    return clean_line(docstring.partition("\n")[0], 120)
