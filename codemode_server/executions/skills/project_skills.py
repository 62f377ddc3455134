"""The project's skills: programs, and folders with a `SKILL.md`, that people put beside the configuration.

    skills/weekly.py                       imported as skills.weekly
    skills/pdf-forms/SKILL.md              front matter with name and description, then instructions
    skills/pdf-forms/scripts/fields.py     imported as skills.pdf_forms.scripts.fields

Programs can't write there. Nothing but plain files is read: a link or a special file may lie there.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.skills import Skill
from codemode_server.executions.skills.skill_source import facts_of
from codemode_server.file_stamps import NO_FILE, FileStamp
from codemode_server.text import clean_line

MAX_FOLDERS = 200
MAX_FILES = 500
MAX_DEPTH = 5
MAX_FILE_BYTES = 1 << 20
_HEAD_BYTES = 256 * 1024
_FRONT_MATTER_CHARACTERS = 8_192
_NAME_CHARACTERS = 64
_DESCRIPTION_CHARACTERS = 1_024
"""As the format has it."""
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LEFT_OUT = ("__pycache__", "node_modules")


@dataclass(frozen=True)
class SkillFolder:
    """One of them."""

    parent: Path
    name: str
    """Name of the folder."""

    @property
    def module(self) -> str:
        """Its name in imports."""
        return module_name(self.name)

    @property
    def skill(self) -> Skill:
        matter = self._front_matter
        title = clean_line(str(matter.get("name") or self.name), _NAME_CHARACTERS)
        description = clean_line(str(matter.get("description") or ""), _DESCRIPTION_CHARACTERS)
        called = f"{title}: " if title != self.name else ""
        return Skill(self.name, f"{called}{description}" or "(no description)", is_folder=True)

    @cached_property
    def files(self) -> tuple[tuple[str, ...], ...]:
        """The paths of its plain files below it, sorted; at most `MAX_FILES`."""
        found: list[tuple[str, ...]] = []
        waiting: list[tuple[str, ...]] = [()]
        while waiting and len(found) < MAX_FILES:
            folder = waiting.pop()
            for path in _entries(self.parent.joinpath(self.name, *folder)):
                inner = (*folder, path.name)
                mode = path.lstat().st_mode
                if stat.S_ISDIR(mode) and len(inner) < MAX_DEPTH and path.name not in _LEFT_OUT:
                    waiting.append(inner)
                elif stat.S_ISREG(mode):
                    found.append(inner)
        return tuple(sorted(found[:MAX_FILES]))

    def read(self, parts: tuple[str, ...]) -> str:
        """The text of one of its files.

        Raises:
            MetaToolError: there is no such file, or it can't be read.
        """
        shown = "/".join(("/skills", self.name, *parts))
        if parts not in self.files:
            raise MetaToolError(f'there is no file {shown!r}; list_dir("/skills/{self.name}") lists them')
        return read_text(self.parent / self.name, parts, MAX_FILE_BYTES, shown=shown)

    def members(self, package: tuple[str, ...]) -> list[str]:
        """Names that can be imported from the package at these folders; empty if there is none."""
        depth = len(package)
        inner = [it for it in self._modules if it[:depth] == package]
        return sorted({it[depth] for it in inner if len(it) > depth})

    def module_file(self, module: tuple[str, ...]) -> tuple[str, ...] | None:
        """The file that is imported by these names; None if there is none."""
        return self._modules.get(module)

    @cached_property
    def _modules(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        found: dict[tuple[str, ...], tuple[str, ...]] = {}
        for path in self.files:
            names = (*map(module_name, path[:-1]), path[-1].removesuffix(".py"))
            if path[-1].endswith(".py") and all(map(str.isidentifier, names)) and not names[-1].startswith("__"):
                found.setdefault(names, path)
        return found

    @property
    def _front_matter(self) -> dict[str, Any]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            text = read_text(self.parent / self.name, ("SKILL.md",), _HEAD_BYTES, shown="SKILL.md")
            match = _FRONT_MATTER.match(text.replace("\r\n", "\n").removeprefix("\ufeff"))
            found = (
                YAML(typ="safe").load(match[1][:_FRONT_MATTER_CHARACTERS]) if match and "&" not in match[1] else None
            )
        except (MetaToolError, YAMLError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def folders_in(folder: Path) -> list[SkillFolder]:
    """Those in the project's folder, by name."""
    found = []
    for path in _entries(folder):
        if _NAME.fullmatch(path.name) and _is(path, stat.S_ISDIR) and _is(path / "SKILL.md", stat.S_ISREG):
            found.append(SkillFolder(folder, path.name))
    return found[:MAX_FOLDERS]


def module_name(name: str) -> str:
    """The name of a folder in imports, which have no hyphens."""
    return name.replace("-", "_")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))[: 4 * MAX_FILES]
    except OSError:
        return []


def _is(path: Path, kind: Any) -> bool:
    try:
        return bool(kind(path.lstat().st_mode))
    except OSError:
        return False


_PROGRAM_BYTES = 256 * 1024


class ProjectSkills:
    """The folder that `state.skills` names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[FileStamp, Skill]] = {}

    def names(self) -> list[str]:
        """The names of the programs."""
        if not self._folder.is_dir():
            return []
        return sorted(
            path.stem
            for path in self._folder.glob("*.py")
            if path.stem.isidentifier() and not path.stem.startswith("_") and path.is_file() and not path.is_symlink()
        )

    def folders(self) -> list[SkillFolder]:
        """The folders with a `SKILL.md`, by name."""
        return folders_in(self._folder)

    def entries(self) -> list[Skill]:
        """Every skill; read anew only if its file changed."""
        found: dict[str, tuple[FileStamp, Skill]] = {}
        for name in self.names():
            stamp, known = self._stamp(name), self._known.get(name)
            found[name] = known if known is not None and known[0] == stamp else (stamp, self._read(name))
        self._known = found
        return [*(skill for _, skill in found.values()), *(folder.skill for folder in self.folders())]

    def source(self, name: str) -> str:
        """The text of a program.

        Raises:
            MetaToolError: it can't be read.
        """
        return read_text(self._folder, (f"{name}.py",), _PROGRAM_BYTES, shown=f"skills/{name}.py")

    def _stamp(self, name: str) -> FileStamp:
        """A fingerprint that changes with the file."""
        try:
            found = (self._folder / f"{name}.py").stat()
        except OSError:
            return NO_FILE
        return FileStamp.of(found)

    def _read(self, name: str) -> Skill:
        try:
            facts = facts_of(name, self.source(name))
        except MetaToolError as error:  # one bad file hides no other
            return Skill(name, f"({error})")
        return Skill(name, facts.summary, facts.function, facts.signature, facts.tools)


_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def read_text(folder: Path, parts: tuple[str, ...], max_bytes: int, *, shown: str) -> str:
    """The text of the file at `parts` below `folder`; none of the parts may be a link. `shown` is its name in messages.

    Raises:
        MetaToolError: there is no such plain file, it is too large, or it is no text.
    """
    path = folder.joinpath(*parts)
    try:
        if any(part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part for part in parts):
            raise OSError("it is no path in the folder")
        inner = folder
        for part in parts[:-1]:
            inner = inner / part
            if not stat.S_ISDIR(inner.lstat().st_mode):
                raise OSError("it goes through a link")
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is no plain file")
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise MetaToolError(f"{shown} is larger than {max_bytes // 1024} KiB")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise MetaToolError(f"{shown} can't be read: {reason}") from error
