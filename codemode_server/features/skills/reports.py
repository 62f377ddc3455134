"""What there is of skills, for the command `skills` and its page: who saved each, what it calls, and whether it is in
use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from codemode_server.cli.terminal import local_time
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.executions.preflight.reading import read
from codemode_server.features.skills.library import ProjectSkills
from codemode_server.features.skills.rules import facts_of, unreviewed_imports
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.records.executions import Records
from codemode_server.records.reports import Column, Report, ReportPage, Row, Text, key_of
from codemode_server.startup.stores import state_folder
from codemode_server.support.text import first_lines, one_line

_MAX_LINE_CHARACTERS = 500
_MAX_SOURCES = 20
_PROJECT = "project/"
"""Begins what names a skill of the project in addresses; no name of a saved one has a slash."""
_COMMANDS = "codemode-server skills accept NAME puts in use what waits for you; or show, diff or reject it"
_NOT_SHOWN = (
    "from sandbox.packages or the image of the sandbox, else from /workspace, where programs can change it after you "
    "have accepted this skill"
)


def store_of(loaded: LoadedSettings) -> SkillStore:
    """The skills that programs of the local principal saved."""
    return SkillStore(state_folder(loaded.settings), local_principal(loaded.settings))


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill that a program saved, beside the one in use under its name."""

    skill: SavedSkill
    in_use: SavedSkill | None
    """The skill in use under its name; the skill itself, unless that is a proposal."""

    @property
    def title(self) -> str:
        skill = self.skill
        return f"{skill.name}@{line_of(skill.execution_id)}" if skill.is_proposal else skill.name

    @property
    def state(self) -> str:
        skill = self.skill
        if skill.is_proposal:
            return "a new version, waits for you" if self.in_use is not None else "waits for you"
        if skill.is_changed:
            return "changed since it was accepted, so nothing can import it; accept it again, or reject it"
        return "in use, not reviewed" if skill.accepted_at is None else f"accepted {local_time(skill.accepted_at)}"

    @property
    def facts(self) -> list[tuple[str, tuple[str, ...]]]:
        """What there is to know besides its text, by names; each of one line or more."""
        skill = self.skill
        found: list[tuple[str, tuple[str, ...]]] = [
            ("saved", (f"{local_time(skill.saved_at)} by execution {line_of(skill.execution_id)}",)),
            ("calls", (line_of(", ".join(skill.tools) or "no tools"),)),
        ]
        reading = read(skill.text)
        if modules := sorted({module for _, module in unreviewed_imports(reading)}) if reading is not None else []:
            names = line_of(", ".join(modules))
            found.append(("imports", (f"{names}, which is not shown here: {_NOT_SHOWN}",)))
        if skill.sources:
            lines = [f"{line_of(it.title)}: {', '.join(sorted(it.labels)) or 'no label'}" for it in skill.sources]
            found.append(("its session had read", tuple(first_lines(lines, _MAX_SOURCES, "and {:,} more"))))
        return found


def saved_skills(store: SkillStore) -> list[SkillEntry]:
    """Those that wait for the person first."""
    by_name = {it.name: it for it in store.in_use()}
    return [SkillEntry(it, by_name.get(it.name)) for it in (*store.proposals(), *by_name.values())]


def report(loaded: LoadedSettings, store: SkillStore) -> Report:
    """What programs saved, then the project's own, then files that are no skills. Blocks."""
    saved = saved_skills(store)
    rows = list(map(_saved_row, saved))
    for it in _project(loaded).entries():
        lines = tuple(line_of(text) for text in (it.name, it.signature, it.summary) if text)
        state = f"yours, in {loaded.settings.state.skills}/"
        rows.append(Row((lines, line_of(state), None, _called(it.tools)), f"skills/{key_of(_PROJECT + it.name)}"))
    for path in store.unreadable():
        rows.append(Row((line_of(str(path)), "not a skill that this product wrote; remove it", None, "")))
    return Report(rows, [_COMMANDS] if any(it.skill.is_proposal for it in saved) else [])


def _saved_row(it: SkillEntry) -> Row:
    facts = facts_of(it.skill.name, it.skill.text)
    lines = tuple(line_of(text) for text in (it.title, facts.signature, facts.summary) if text)
    return Row((lines, it.state, it.skill.saved_at, _called(it.skill.tools)), f"skills/{key_of(it.title)}")


def _called(tools: tuple[str, ...]) -> str:
    return f"calls {line_of(', '.join(tools) or 'no tools')}"


def _project(loaded: LoadedSettings) -> ProjectSkills:
    return ProjectSkills(Path(loaded.settings.state.skills))


def line_of(text: str) -> str:
    return one_line(text, _MAX_LINE_CHARACTERS)


async def _read(records: Records, _: str) -> Report:
    loaded = records.loaded
    return await anyio.to_thread.run_sync(lambda: report(loaded, store_of(loaded)))


async def _item(records: Records, key: str) -> Text | None:
    def found() -> Text | None:
        project, place = _project(records.loaded), records.loaded.settings.state.skills
        for it in saved_skills(store_of(records.loaded)):
            if key_of(it.title) == key:
                facts = [("state", (it.state,)), *it.facts]
                return Text(it.skill.name, [(name, "; ".join(lines)) for name, lines in facts], it.skill.text)
        for name in project.names():
            if key_of(_PROJECT + name) == key:
                return Text(name, [("state", f"yours, in {line_of(place)}/")], project.source(name))
        return None

    return await anyio.to_thread.run_sync(found)


SKILLS = ReportPage(
    name="skills",
    title="Skills",
    columns=(Column("Skill"), Column("State"), Column("Saved", "moment"), Column("Tools")),
    read=_read,
    item=_item,
    empty="There are no skills. A program saves one as a file of /skills, for other programs to import.",
)
