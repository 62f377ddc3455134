"""The skills that programs of one principal saved, as plain files that a person can read and put under git:

    skills/<principal>/
        check_pending_orders.py                        in use
        proposed/check_pending_orders@x7f3a9c21b04.py  waits for the person; named by the execution that saved it

A file is a header of comments, which only the host writes, each value as JSON (`# saved: "2026-11-25T01:30:34Z"`), and
behind its last line the program's text, which can forge none of it. No sandbox sees the folder. A file is always
written as a whole, and every change holds the lock of the folder, since the command line changes it too. Reading needs
no lock: a file is read once, and what was read is what is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.flows import Source
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.processes.file_lock import held
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.private_files import (
    NotPrivate,
    open_private,
    private_folder,
    private_subfolder,
    replace_private,
)

_END = "# --- the skill itself begins below ---"
_MAX_HEADER_LINES = 20
_SOURCES = TypeAdapter(tuple[Source, ...])


@dataclass(frozen=True, slots=True)
class SavedSkill:
    """A skill that a program saved, with where it came from."""

    name: str
    text: str
    execution_id: ExecutionId
    session_id: str
    """The session that may import it while it is a proposal."""
    saved_at: float
    """Seconds since 1970, as `accepted_at`."""
    tools: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    """Sources that its session had read by then; empty once a person has accepted it."""
    accepted_at: float | None = None
    is_changed: bool = False
    """True if its text differs from the one that was saved and accepted."""
    is_proposal: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def accepted(self, at: float) -> SavedSkill:
        return replace(self, accepted_at=at, sources=(), is_changed=False, is_proposal=False)


def encode(skill: SavedSkill) -> bytes:
    """The whole file."""
    values = {
        "execution": skill.execution_id,
        "session": skill.session_id,
        "saved": written_time(skill.saved_at),
        "tools": list(skill.tools),
        "accepted": None if skill.accepted_at is None else written_time(skill.accepted_at),
        "sources": [{**asdict(source), "labels": sorted(source.labels)} for source in skill.sources],
        "sha256": skill.digest,
    }
    title = f"# skill {skill.name}, saved by a program; see `codemode-server skills show {skill.name}`"
    lines = [title, *(f"# {key}: {json.dumps(value)}" for key, value in values.items()), _END, skill.text]
    return "\n".join(lines).encode()


def decode(name: str, content: bytes) -> SavedSkill | None:
    """A file as it is now; None if it has no whole header, so that a person has to look at it."""
    try:
        header, end, text = content.decode().partition(f"\n{_END}\n")
    except UnicodeDecodeError:
        return None
    lines = header.split("\n")
    if not end or len(lines) > _MAX_HEADER_LINES:
        return None
    try:
        values = dict(_values(lines[1:]))
        skill = SavedSkill(
            name,
            text,
            ExecutionId(str(values["execution"])[:40]),
            str(values["session"])[:80],
            _time(values["saved"]),
            tuple(map(str, values["tools"])),
            _SOURCES.validate_python(values["sources"]),
            None if values["accepted"] is None else _time(values["accepted"]),
        )
        return replace(skill, is_changed=skill.digest != values["sha256"])
    except (KeyError, ValueError, TypeError, ValidationError, RecursionError):
        return None


def written_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(lines: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for line in lines:
        key, _, value = line.removeprefix("# ").partition(": ")
        yield key, json.loads(value)


def _time(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


MAX_SKILLS = 500
MAX_PROPOSALS = 100
MAX_PROPOSALS_OF_SESSION = 20
_FOLDER = "skills"
_MAX_FILE_BYTES = 1 << 20
_MAX_FILES = 5_000
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?:@([\w-]{1,40}))?\.py")
_LOCK_SECONDS = 5.0


class SkillStore:
    """One principal's; used in threads."""

    def __init__(self, state_folder: Path, principal: Principal) -> None:
        self._state_folder, self.principal = state_folder, principal
        self.path = state_folder / _FOLDER / principal.principal_id
        self._known: dict[Path, tuple[FileStamp, SavedSkill | None]] = {}

    def in_use(self) -> list[SavedSkill]:
        """By name. One whose file was changed since it was accepted is among them, as `is_changed`."""
        return self._all(self.path)

    def proposals(self) -> list[SavedSkill]:
        """By name and time."""
        found = self._all(self.path / "proposed")
        return sorted(found, key=lambda it: (it.name.casefold(), it.saved_at, it.execution_id))

    def unreadable(self) -> list[Path]:
        """Files that could be skills and have no whole header, or are no private files."""
        folders = (self.path, self.path / "proposed")
        return [path for folder in folders for path in _files(folder) if self._read(path) is None]

    def read_in_use(self, name: str) -> SavedSkill | None:
        """As the file is now; None if there is none."""
        return self._read(self.path / f"{name}.py")

    def propose(self, skill: SavedSkill) -> None:
        """Store a proposal. An older one of the same session under this name stays until `settle`. Raises
        `MetaToolError` if there are too many; `OSError` if it can't be written."""
        with self._changing():
            others = [it for it in self.proposals() if not _is_same(it, skill)]
            if sum(it.session_id == skill.session_id for it in others) >= MAX_PROPOSALS_OF_SESSION:
                raise MetaToolError(
                    f"this session has proposed {MAX_PROPOSALS_OF_SESSION} skills; save over one of them, or let the "
                    "user accept or reject some (codemode-server skills list)"
                )
            if len(others) >= MAX_PROPOSALS or len(self.in_use()) >= MAX_SKILLS:
                raise MetaToolError(
                    "too many skills are saved; the user can accept or reject proposals (codemode-server skills list)"
                )
            content = encode(skill)
            if len(content) > _MAX_FILE_BYTES:
                raise MetaToolError("this session has read from too many tools for a skill to name them all")
            private_subfolder(self.path, "proposed")
            replace_private(self._proposal(skill), content)

    def settle(self, skill: SavedSkill) -> None:
        """A proposal stays: delete the older ones of the same session under its name."""
        with self._changing():
            for it in self.proposals():
                if _is_same(it, skill) and it.execution_id != skill.execution_id and it.saved_at <= skill.saved_at:
                    self._proposal(it).unlink(missing_ok=True)

    def put_in_use(self, skill: SavedSkill, *, shown: SavedSkill | None) -> None:
        """Have a skill take the place of what is in use under its name, and delete the proposal that it was, unless
        that has another text by now. `shown` is what was in use when this was decided. Raises `MetaToolError` if
        something else is in use by now; `OSError` if it can't be written."""
        with self._changing():
            before = self.read_in_use(skill.name)
            if (before and before.text) != (shown and shown.text):
                raise MetaToolError(f"skills.{skill.name} was changed meanwhile; look at it again")
            replace_private(self.path / f"{skill.name}.py", encode(skill))
            proposal = self._read(self._proposal(skill))
            if proposal is not None and proposal.text == skill.text:
                self._proposal(skill).unlink(missing_ok=True)

    def remove(self, skill: SavedSkill) -> None:
        with self._changing():
            (self.path / f"{skill.name}.py").unlink(missing_ok=True)

    def delete_proposal(self, skill: SavedSkill) -> bool:
        """Delete a proposal; whether it was still there with this text."""
        with self._changing():
            now = self._read(self._proposal(skill))
            if now is None or now.text != skill.text:
                return False
            self._proposal(skill).unlink(missing_ok=True)
            return True

    def proposals_of(self, execution_id: ExecutionId) -> list[SavedSkill]:
        return [it for it in self.proposals() if it.execution_id == execution_id]

    def _proposal(self, skill: SavedSkill) -> Path:
        return self.path / "proposed" / f"{skill.name}@{skill.execution_id}.py"

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            state_folder = private_folder(self._state_folder, "state.dir in upstream.yaml", is_readable=True)
            private_subfolder(state_folder, _FOLDER, self.principal.principal_id)
            with held(self.path / ".lock", timeout_s=_LOCK_SECONDS):
                yield
        except TimeoutError:
            raise MetaToolError("the skills are being changed by another process; try again") from None

    def _all(self, folder: Path) -> list[SavedSkill]:
        found = ((path, self._cached(path)) for path in _files(folder))
        return [skill for path, skill in found if skill is not None]

    def _cached(self, path: Path) -> SavedSkill | None:
        try:
            status = path.lstat()
        except OSError:
            return None
        stamp, known = FileStamp.of(status), self._known.get(path)
        if known is None or known[0] != stamp:
            if len(self._known) > _MAX_FILES:
                self._known.clear()
            known = self._known[path] = (stamp, self._read(path))
        return known[1]

    def _read(self, path: Path) -> SavedSkill | None:
        """A file as it is now; None if there is none, or none that could be a skill."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        with suppress(OSError, NotPrivate):
            descriptor = open_private(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                content = file.read(_MAX_FILE_BYTES + 1)
            skill = decode(match[1], content) if len(content) <= _MAX_FILE_BYTES else None
            is_proposal = path.parent.name == "proposed"
            if skill is None or not is_proposal:
                return skill
            # A proposal is what its execution saved, whatever its header claims.
            return replace(skill, accepted_at=None, execution_id=ExecutionId(match[2] or ""), is_proposal=True)
        return None


def _is_same(one: SavedSkill, other: SavedSkill) -> bool:
    return (one.name, one.session_id) == (other.name, other.session_id)


def _files(folder: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    return [folder / name for name in names[:_MAX_FILES] if _NAME.fullmatch(name)]
