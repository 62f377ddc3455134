"""The `skills` command: shows the skills that programs saved, with all that differs, and accepts or rejects them.
Accepting insists on a person at a terminal, since the text was written by a model that others can talk into anything.
"""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, is_confirmed, local_time, person_confirms, show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.executions.preflight.reading import read
from codemode_server.features.skills.library import ProjectSkills
from codemode_server.features.skills.rules import facts_of, unreviewed_imports
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.startup.stores import database_place, state_folder
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.support.text import escaped, first_lines, legible, one_line

_MAX_LINE_CHARACTERS = 500
_MAX_SOURCES = 20
_PAGE_WIDTH = 100
_CONTINUED = "…"
"""Begins the rest of a longer line; no number of a line and no mark of a difference does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the skills, those that wait for you first; the default")
    for name, summary in (
        ("show", "print the whole text of one, and where it came from"),
        ("diff", "print what a proposal changes in the skill that is in use"),
        ("accept", "put a proposal in use as it is shown; asks you at the terminal"),
        ("reject", "delete a proposal, or take a skill out of use"),
    ):
        action = actions.add_parser(name, help=summary)
        action.add_argument("name", metavar="NAME", help="its name; NAME@EXECUTION if several wait")
        if name == "reject":
            action.add_argument("--yes", action="store_true", help="do it without being asked")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    store = SkillStore(state_folder(loaded.settings), local_principal(loaded.settings))
    if parsed.action == "list":
        show(_page(loaded, store))
        return 0
    found = _find(store, parsed.name)
    match parsed.action:
        case "show":
            show(_whole(found))
        case "diff":
            show(_diff(found))
        case "accept":
            return _accept(store, found, loaded)
        case "reject":
            return _reject(store, found, loaded, is_sure=parsed.yes)
    return 0


@dataclass(frozen=True, slots=True)
class Found:
    skill: SavedSkill
    in_use: SavedSkill | None
    """The skill in use under its name; the skill itself, unless that is a proposal."""

    @property
    def title(self) -> str:
        return _title(self.skill)


def _find(store: SkillStore, name: str) -> Found:
    name, _, execution = name.removesuffix(".py").partition("@")
    in_use = next((it for it in store.in_use() if it.name == name), None)
    proposals = [it for it in store.proposals() if it.name == name and execution in ("", it.execution_id)]
    if len(proposals) > 1:
        titles = ", ".join(_title(it) for it in proposals)
        raise CodemodeError(f"several proposals have this name; say which: {titles}")
    if proposals:
        return Found(proposals[0], in_use)
    if in_use is not None and execution in ("", in_use.execution_id):
        return Found(in_use, in_use)
    raise CodemodeError(f"no skill {one_line(name, 80)!r} was saved by a program; `codemode-server skills list`")


def _accept(store: SkillStore, found: Found, loaded: LoadedSettings) -> int:
    skill = found.skill
    is_accepted = found.in_use is not None and found.in_use.accepted_at is not None and not found.in_use.is_changed
    if not skill.is_proposal and is_accepted:
        show(f"{skill.name} is accepted already")
        return 0
    page = _diff(found) if is_accepted else _whole(found)
    question = f"Accept {found.title} as shown, for every session of {store.principal.principal_id}?"
    if not person_confirms(page, question):
        show("nothing was accepted")
        return 1
    store.put_in_use(skill.accepted(time.time()), shown=found.in_use)
    _record_review(loaded, store, found, AuditEventKind.SKILL_ACCEPTED, "accepted")
    show(f"accepted: from skills.{skill.name} import {facts_of(skill.name, skill.text).function}")
    return 0


def _reject(store: SkillStore, found: Found, loaded: LoadedSettings, *, is_sure: bool) -> int:
    skill = found.skill
    question = f"Delete the proposal {found.title}?" if skill.is_proposal else f"Take {skill.name} out of use?"
    if not is_sure and not is_confirmed(f"{question} [y/N] "):
        show("nothing was changed")
        return 1
    if not skill.is_proposal:
        store.remove(skill)
        _record_review(loaded, store, found, AuditEventKind.SKILL_REJECTED, "out of use")
        show(f"{skill.name} is out of use; its text is in {escaped(str(store.path / 'earlier'))}")
    elif store.delete_proposal(skill):
        _record_review(loaded, store, found, AuditEventKind.SKILL_REJECTED, "rejected")
        show(f"rejected: {found.title}")
    else:
        show(f"{found.title} was changed meanwhile; look at it again")
        return 1
    return 0


def _record_review(loaded: LoadedSettings, store: SkillStore, found: Found, kind: AuditEventKind, status: str) -> None:
    skill, thread = found.skill, DatabaseThread(database_place(loaded.settings))
    reason = f"{found.title}, saved by execution {_line(skill.execution_id)}, SHA-256 {skill.digest[:16]}"
    more = {"server": "skills", "tool": skill.name, "reason": reason, "status": status}
    with closing(thread):
        Audit(thread).append(AuditEvent.by_person(kind, store.principal, **more))


def _page(loaded: LoadedSettings, store: SkillStore) -> str:
    proposals, in_use = store.proposals(), store.in_use()
    project = ProjectSkills(Path(loaded.settings.state.skills)).entries()
    lines: list[str] = []
    by_name = {it.name: it for it in in_use}
    for it in (*proposals, *in_use):
        facts = facts_of(it.name, it.text)
        lines.append(f"{_title(it)}: {_state(it, by_name.get(it.name))}; saved {local_time(it.saved_at)}")
        lines += [f"    {_line(it)}" for it in (facts.signature, facts.summary) if it]
        lines.append(f"    calls {_line(', '.join(it.tools))}" if it.tools else "    calls no tools")
    lines += [f"{_line(it.name)}: yours, in {escaped(loaded.settings.state.skills)}/" for it in project]
    lines += [f"{_line(str(it))}: not a skill that this product wrote; remove it" for it in store.unreadable()]
    if proposals:
        lines += ["", "codemode-server skills show | diff | accept | reject NAME"]
    return "\n".join(lines) if lines else "there are no skills"


def _whole(found: Found) -> str:
    skill = found.skill
    lines = skill.text.rstrip("\n").split("\n")
    numbered = (row for number, line in enumerate(lines, 1) for row in _rows(f"{number:>4}  ", line))
    return "\n".join([*_head(found), "", *numbered])


def _diff(found: Found) -> str:
    if found.in_use is None or not found.skill.is_proposal:
        return f"{_whole(found)}\n\nnothing else is in use under this name"
    lines = difflib.unified_diff(
        found.in_use.text.split("\n"), found.skill.text.split("\n"), "in use", "proposed", lineterm="", n=5
    )
    return "\n".join([*_head(found), "", *(row for line in lines for row in _rows(line[:1], line[1:]))])


def _rows(mark: str, line: str) -> Iterator[str]:
    """The whole of a line of a text, nothing of it moved out of sight; in rows, if it is long."""
    indented = line.lstrip(" ")
    indent = line[: len(line) - len(indented)]
    shown = legible(line) if len(indent) > _PAGE_WIDTH // 2 else indent + legible(indented)
    for start in range(0, max(len(shown), 1), _PAGE_WIDTH):
        yield f"{_CONTINUED.ljust(len(mark)) if start else mark}{shown[start : start + _PAGE_WIDTH]}"


def _head(found: Found) -> list[str]:
    skill = found.skill
    lines = [
        f"{found.title}: {_state(skill, found.in_use)}",
        f"saved {local_time(skill.saved_at)} by execution {_line(skill.execution_id)}",
        f"calls {_line(', '.join(skill.tools))}" if skill.tools else "calls no tools",
    ]
    reading = read(skill.text)
    modules = sorted({module for _, module in unreviewed_imports(reading)}) if reading is not None else []
    if modules:
        names = _line(", ".join(modules))
        lines.append(f"imports {names}, which is not shown here: from sandbox.packages or the image of the sandbox,")
        lines.append("    else from /workspace, where programs can change it after you have accepted this skill")
    if skill.sources:
        lines.append("its session had read:")
        sources = [f"    {_line(it.title)}: {', '.join(sorted(it.labels)) or 'no label'}" for it in skill.sources]
        lines += first_lines(sources, _MAX_SOURCES, "    and {:,} more")
    return lines


def _state(skill: SavedSkill, in_use: SavedSkill | None) -> str:
    if skill.is_proposal:
        return "a new version, waits for you" if in_use is not None else "waits for you"
    if skill.is_changed:
        return "changed since it was accepted, so nothing can import it; accept it again, or reject it"
    return "in use, not reviewed" if skill.accepted_at is None else f"accepted {local_time(skill.accepted_at)}"


def _title(skill: SavedSkill) -> str:
    return f"{skill.name}@{_line(skill.execution_id)}" if skill.is_proposal else skill.name


def _line(text: str) -> str:
    return one_line(text, _MAX_LINE_CHARACTERS)
