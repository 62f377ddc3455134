"""The project's skills: programs that people put beside the configuration; `skills/weekly.py` is `skills.weekly`.

Programs can't write there. Nothing but plain files is read: a link or a special file may lie there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.skills import Skill
from codemode_server.executions.skills.skill_source import facts_of
from codemode_server.file_stamps import NO_FILE, FileStamp

_MAX_BYTES = 256 * 1024
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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

    def entries(self) -> list[Skill]:
        """Every skill; read anew only if its file changed."""
        found: dict[str, tuple[FileStamp, Skill]] = {}
        for name in self.names():
            stamp, known = self._stamp(name), self._known.get(name)
            found[name] = known if known is not None and known[0] == stamp else (stamp, self._read(name))
        self._known = found
        return [skill for _, skill in found.values()]

    def source(self, name: str) -> str:
        """The text of a program.

        Raises:
            MetaToolError: it can't be read.
        """
        try:
            with os.fdopen(os.open(self._folder / f"{name}.py", _READ), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise OSError("it is no plain file")
                content = file.read(_MAX_BYTES + 1)
            if len(content) > _MAX_BYTES:
                raise MetaToolError(f"skills/{name}.py is larger than {_MAX_BYTES // 1024} KiB")
            return content.decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise MetaToolError(f"skills/{name}.py can't be read: {reason}") from error

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
