"""The folder of workflows: finding, reading and compiling them. People put them there; programs can't."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.config.document import MAX_BYTES
from codemode_server.config.problems import nearest, printable
from codemode_server.domain.errors import CodemodeError, SettingsError, UnknownTool
from codemode_server.domain.skills import Skill
from codemode_server.file_stamps import FileStamp
from codemode_server.text import clean_line
from codemode_server.workflows.compiling import CompiledWorkflow, compile_workflow

PACKAGE = "workflows"
_SUFFIXES = (".yaml", ".yml", ".json")
_SUMMARY_CHARACTERS = 120
_SIGNATURE_CHARACTERS = 240


@dataclass(slots=True)
class Workflows:
    """All workflows of one folder. A file is compiled again only if it changed. Blocks briefly."""

    folder: Path
    _known: dict[str, tuple[FileStamp, CompiledWorkflow | SettingsError]] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self._files())

    def compiled(self, name: str) -> CompiledWorkflow:
        """The program of a workflow. Raises `UnknownTool` if there is none of that name; names the nearest;
        `SettingsError`: its file has mistakes."""
        if (path := self._files().get(name)) is None:
            raise UnknownTool(self.why_missing(name))
        try:
            found = path.stat()
            stamp = FileStamp.of(found)
            known = self._known.get(name)
            if known is None or known[0] != stamp:
                known = self._known[name] = stamp, self._compile(name, path, found.st_size)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{PACKAGE}/{path.name}: can't be read: {error}") from error
        if isinstance(known[1], SettingsError):
            raise known[1]
        return known[1]

    def source(self, name: str) -> str:
        """The program as text, for programs that import it. Raises `UnknownTool` if there is none of that name, or its
        file has mistakes."""
        try:
            return self.compiled(name).source
        except SettingsError as error:
            raise UnknownTool(f"the workflow {name!r} has mistakes, which the user has to mend: {error}") from error

    def text(self, name: str) -> str:
        """Its file, below the line that imports it, for people and models to read. Raises `UnknownTool`,
        `SettingsError`: as `compiled`."""
        found = self.compiled(name)
        text = self._files()[name].read_text(encoding="utf-8-sig")
        return f"# from {PACKAGE} import {name}\n# {found.signature}\n{text}"

    def entries(self) -> list[Skill]:
        return list(map(self._entry, self.names()))

    def why_missing(self, name: str) -> str:
        """An error that there is no such workflow, with the nearest name; empty if it exists."""
        names = self.names()
        if name in names:
            return ""
        meant = nearest(name, names)
        others = f"there are: {', '.join(names[:20])}" if names else "there are none yet"
        return f"there is no workflow {printable(name)!r}; {f'did you mean {meant!r}?' if meant else others}"

    def _entry(self, name: str) -> Skill:
        try:
            found = self.compiled(name)
        except CodemodeError:  # one bad file hides no other
            return Skill(name, "(has mistakes; the user has to mend it)", package=PACKAGE)
        summary = clean_line(found.description, _SUMMARY_CHARACTERS)
        return Skill(name, summary, name, clean_line(found.signature, _SIGNATURE_CHARACTERS), package=PACKAGE)

    def _files(self) -> dict[str, Path]:
        if not self.folder.is_dir():
            return {}
        return {
            path.stem: path
            for path in sorted(self.folder.iterdir(), reverse=True)
            if path.suffix in _SUFFIXES and path.stem.isidentifier() and path.is_file() and not path.is_symlink()
        }

    def _compile(self, name: str, path: Path, size: int) -> CompiledWorkflow | SettingsError:
        file = f"{PACKAGE}/{path.name}"
        if size > MAX_BYTES:
            return SettingsError(f"{file}: is larger than 1 MiB, which no workflow needs")
        try:
            return compile_workflow(name, path.read_text(encoding="utf-8-sig"), file)
        except SettingsError as error:
            return error
