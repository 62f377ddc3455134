"""The `skills` command: shows the skills that programs saved, with all that differs, and accepts or rejects them.
Accepting insists on a person at a terminal, since the text was written by a model that others can talk into anything.
"""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Iterator
from contextlib import closing

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, is_confirmed, local_time, person_confirms, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.skills.reports import SkillEntry, line_of, report, saved_skills, store_of
from codemode_server.features.skills.rules import facts_of
from codemode_server.features.skills.store import SkillStore
from codemode_server.records.reports import Report
from codemode_server.startup.stores import database_place
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.support.text import escaped, legible, one_line

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
    store = store_of(loaded)
    if parsed.action == "list":
        show(_page(report(loaded, store)))
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


def _find(store: SkillStore, name: str) -> SkillEntry:
    name, _, execution = name.removesuffix(".py").partition("@")
    found = [it for it in saved_skills(store) if it.skill.name == name and execution in ("", it.skill.execution_id)]
    proposals = [it for it in found if it.skill.is_proposal]
    if len(proposals) > 1:
        titles = ", ".join(it.title for it in proposals)
        raise CodemodeError(f"several proposals have this name; say which: {titles}")
    if not found:
        raise CodemodeError(f"no skill {one_line(name, 80)!r} was saved by a program; `codemode-server skills list`")
    return found[0]


def _accept(store: SkillStore, found: SkillEntry, loaded: LoadedSettings) -> int:
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


def _reject(store: SkillStore, found: SkillEntry, loaded: LoadedSettings, *, is_sure: bool) -> int:
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


def _record_review(
    loaded: LoadedSettings, store: SkillStore, found: SkillEntry, kind: AuditEventKind, status: str
) -> None:
    skill, thread = found.skill, DatabaseThread(database_place(loaded.settings))
    reason = f"{found.title}, saved by execution {line_of(skill.execution_id)}, SHA-256 {skill.digest[:16]}"
    more = {"server": "skills", "tool": skill.name, "reason": reason, "status": status}
    with closing(thread):
        Audit(thread).append(AuditEvent.by_person(kind, store.principal, **more))


def _page(found: Report) -> str:
    lines: list[str] = []
    for row in found.rows:
        texts, state, saved_at, called = row.cells
        title, *more = texts if isinstance(texts, tuple) else (texts,)
        lines.append(f"{title}: {state}" + (f"; saved {local_time(saved_at)}" if isinstance(saved_at, float) else ""))
        lines += [f"    {it}" for it in (*more, called) if it]
    return "\n".join([*lines, *(["", *found.about] if found.about else [])]) or "there are no skills"


def _whole(found: SkillEntry) -> str:
    skill = found.skill
    lines = skill.text.rstrip("\n").split("\n")
    numbered = (row for number, line in enumerate(lines, 1) for row in _rows(f"{number:>4}  ", line))
    return "\n".join([*_head(found), "", *numbered])


def _diff(found: SkillEntry) -> str:
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


def _head(found: SkillEntry) -> list[str]:
    lines = [f"{found.title}: {found.state}"]
    for name, values in found.facts:
        lines += [f"{name} {values[0]}"] if len(values) == 1 else [f"{name}:", *(f"    {it}" for it in values)]
    return lines
