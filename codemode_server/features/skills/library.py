"""The skills that one session sees: the project's, its principal's that are in use, and the proposals of its own.

The project's are programs that people put beside the configuration (`skills/weekly.py` is `skills.weekly`); programs
can't write there. A proposal of the session takes the place of what is in use under its name. No saved skill takes the
place of one of the project's.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.flows import Source
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal
from codemode_server.domain.skills import Skill, SkillState
from codemode_server.features.skills.rules import SkillSource, facts_of
from codemode_server.features.skills.settings import SkillSettings
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.sandbox.guest.similar_names import similar_name

_MAX_BYTES = 256 * 1024
_UNNAMED = "skills that other sessions proposed"
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class ProjectSkills:
    """The folder that `state.skills` names."""

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
        return list(map(self._read, self.names()))

    def source(self, name: str) -> str:
        """The text of a program. Raises `MetaToolError` if it can't be read."""
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

    def _read(self, name: str) -> Skill:
        try:
            facts = facts_of(name, self.source(name))
        except MetaToolError as error:  # one bad file hides no other
            return Skill(name, f"({error})")
        return Skill(name, facts.summary, facts.function, facts.signature, facts.tools)


@dataclass(frozen=True, slots=True)
class SkillText:
    text: str
    note: str = ""
    """For the head of the file."""
    sources: tuple[Source, ...] = ()
    """Sources read by the session that saved it, if no person has accepted it and this is another session."""


@dataclass(slots=True)
class SkillLibrary:
    """Used in threads and on the event loop: it reads small files."""

    project: ProjectSkills
    state_folder: Path
    config: LiveConfig
    _stores: dict[PrincipalId, SkillStore] = field(default_factory=dict)

    def store(self, principal: Principal) -> SkillStore:
        if principal.principal_id not in self._stores:
            self._stores[principal.principal_id] = SkillStore(self.state_folder, principal)
        return self._stores[principal.principal_id]

    @property
    def is_automatic(self) -> bool:
        return SkillSettings.of(self.config.settings).review == "auto"

    def entries(self, owner: Owner) -> list[Skill]:
        """Every skill that the session can import or read, by name."""
        project = self.project.entries()
        saved = [_described(it, owner) for it in self._visible(owner).values()]
        return sorted([*project, *saved], key=lambda it: it.name)

    def project_names(self) -> set[str]:
        """The names that only people give, in the spelling that no file system tells apart."""
        return {name.casefold() for name in self.project.names()}

    def names(self, owner: Owner) -> list[str]:
        return sorted({*self.project.names(), *self._visible(owner)})

    def source(self, owner: Owner, name: str) -> SkillText:
        """The text of a program. Raises `MetaToolError` if there is none of that name, which names the nearest, or it
        can't be read."""
        if name in self.project.names():
            return SkillText(self.project.source(name))
        if (found := self._now(owner, name)) is None:
            raise UnknownTool(self.why_missing(owner, name) or f"there is no skill {name!r}")
        skill = _described(found, owner)
        note = [f"saved by {found.execution_id}", skill.calls, skill.mark]
        sources = () if _is_known_to(owner, found) else found.sources
        return SkillText(found.text, "".join(f" · {part}" for part in note if part), sources)

    def load(self, owner: Owner, path: tuple[str, ...]) -> tuple[dict[str, Any], SkillText | None]:
        """The answer to an import of `skills.<path>`, and the text, if it is a module. Raises `MetaToolError` if there
        is no such module."""
        if not path:
            return {"kind": "package", "names": self.names(owner), "doc": "Saved programs."}, None
        if len(path) > 1:
            raise UnknownTool(f"there is no module 'skills.{'.'.join(path)}'; a skill is one module: skills.{path[0]}")
        found = self.source(owner, path[0])
        return {"kind": "module", "source": found.text}, found

    def why_missing(self, owner: Owner, name: str) -> str:
        """An error that there is no such skill, with the nearest name; empty if it exists."""
        if name in (names := self.names(owner)):
            return ""
        store = self.store(owner.principal)
        if any(it.name == name for it in store.in_use()):
            return f"skills.{name} waits for the user's review: codemode-server skills show {name}"
        waiting = self.waiting(owner)
        if name in waiting:
            return f"skill {name!r} {waiting[name]}"
        meant = similar_name(name, names)
        others = f"there are: {', '.join(names[:20])}" if names else "no skill is in use yet"
        unnamed = f"; {_UNNAMED} {waiting[_UNNAMED]}" if _UNNAMED in waiting else ""
        return f"there is no skill {name!r}; {f'did you mean {meant}?' if meant else others}{unnamed}"

    def waiting(self, owner: Owner) -> dict[str, str]:
        """The proposals of the principal's other sessions with how the user accepts them. Of a session that had read
        something they are not named, nor answered to by name: that could carry what it had read."""
        others = [it for it in self.store(owner.principal).proposals() if it.session_id != owner.session.session_id]
        command = "codemode-server skills"
        named = {
            it.name: f"is proposed and waits for the user: {command} accept {it.name}"
            for it in others
            if not it.sources
        }
        return named | ({_UNNAMED: f"wait for the user: {command} list"} if any(it.sources for it in others) else {})

    def _visible(self, owner: Owner) -> dict[str, SavedSkill]:
        store, project = self.store(owner.principal), self.project_names()
        found = {it.name: it for it in store.in_use() if self._is_usable(it)}
        found |= {it.name: it for it in store.proposals() if it.session_id == owner.session.session_id}
        return {name: it for name, it in found.items() if name.casefold() not in project}

    def _now(self, owner: Owner, name: str) -> SavedSkill | None:
        """The skill as its file is now: what is checked is what is used."""
        if name.casefold() in self.project_names():
            return None
        store = self.store(owner.principal)
        own = [it for it in store.proposals() if it.name == name and it.session_id == owner.session.session_id]
        if own:
            return own[-1]
        found = store.read_in_use(name)
        return found if found is not None and self._is_usable(found) else None

    def _is_usable(self, skill: SavedSkill) -> bool:
        return not skill.is_changed and (skill.accepted_at is not None or self.is_automatic)


def skill_library(state_folder: Path, config: LiveConfig) -> SkillLibrary:
    return SkillLibrary(ProjectSkills(Path(config.settings.state.skills)), state_folder, config)


def _described(saved: SavedSkill, owner: Owner) -> Skill:
    facts = facts_of(saved.name, saved.text)
    if saved.sources and not _is_known_to(owner, saved):
        # Text of a session that had read what this one has not: who asks for the whole file is shown it, and counts as
        # having read that too.
        facts = SkillSource("")
    state = SkillState.UNREVIEWED if saved.accepted_at is None else SkillState.ACCEPTED
    return Skill(
        saved.name,
        facts.summary,
        facts.function,
        facts.signature,
        facts.tools,
        SkillState.PROPOSED if saved.is_proposal else state,
        saved.execution_id,
        owner.principal.principal_id,
    )


def _is_known_to(owner: Owner, saved: SavedSkill) -> bool:
    """True if a skill is this session's own, or accepted by a person."""
    return saved.session_id == owner.session.session_id or saved.accepted_at is not None
