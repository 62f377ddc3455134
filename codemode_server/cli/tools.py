"""The `tools` command: shows which tools changed since they were accepted, or are new, and accepts them.

Accepting insists on a person at a terminal, since what changed may be text that was written to talk a model into it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.person_at_terminal import person_confirms
from codemode_server.cli.state_database import state_database
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.live import local_principal
from codemode_server.domain.definition_changes import DefinitionChange
from codemode_server.domain.definitions import SERVER, KnownDefinition, by_tool, waiting
from codemode_server.domain.errors import CodemodeError
from codemode_server.first_listing import state_folder
from codemode_server.gateway.policy.changed_tools import REVIEW
from codemode_server.gateway.policy.tool_definitions import accepted_event, answer_for, change_of, kind_of
from codemode_server.permission_settings import Answer
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_definitions import SqliteDefinitions
from codemode_server.text import one_line

_MAX_NAME_CHARACTERS = 200
_ANSWERS = {"ask": "you are asked for each call", "deny": "calls are refused", "allow": "calls are not held back"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    review = actions.add_parser("review", help="print tools that changed or are new, and accept them")
    add_config(review)
    review.add_argument("server", nargs="?", metavar="SERVER", help="only this server's")
    which = review.add_mutually_exclusive_group()
    which.add_argument(
        "--accept", metavar="SERVER/TOOL", help="accept one tool as it is shown; asks you at the terminal"
    )
    which.add_argument("--accept-all", action="store_true", help="accept all that is shown; asks you at the terminal")
    which.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded = load(config_file(parsed), require_trust=False, resolve=False)
    with _opened(loaded) as stored:
        found = [] if stored is None else stored.waiting(parsed.server)
        if parsed.accept is not None:
            found = [it for it in found if it.name == parsed.accept]
            if not found:
                raise CodemodeError(
                    f"no change of {one_line(parsed.accept, 200)!r} waits; `{REVIEW}` shows all that do"
                )
        if parsed.json:
            show(json.dumps([it.as_json() for it in found], indent=2))
        elif stored is None or not found:
            show("no tool has changed since it was accepted")
        elif parsed.accept is None and not parsed.accept_all:
            show(f"{_page(found)}\n\n{REVIEW} --accept SERVER/TOOL | --accept-all")
        elif not person_confirms(_page(found), f"Accept {_count(found)} as shown?"):
            show("nothing was accepted")
            return 1
        else:
            anyio.run(stored.accept, found)
            show(f"accepted: {', '.join(dict.fromkeys(one_line(it.name, _MAX_NAME_CHARACTERS) for it in found))}")
    return 0


@dataclass(frozen=True, slots=True)
class WaitingTool:
    """A definition that waits for the person, with what differs."""

    definition: KnownDefinition
    change: DefinitionChange
    until_then: str
    """What happens to its calls until then."""

    @property
    def name(self) -> str:
        return f"{self.definition.server}/{self.definition.tool}"

    @property
    def text(self) -> str:
        kind = kind_of(self.definition)
        title = f"{one_line(self.name, _MAX_NAME_CHARACTERS)}: {kind}; {self.until_then}"
        return "\n".join([title, *(f"    {line}" for line in self.change.lines)])

    def as_json(self) -> dict[str, Any]:
        it = self.definition
        return {
            "server": it.server,
            "tool": it.tool,
            "kind": "changed" if it.former == it.tool else "renamed" if it.former else "new",
            "former": it.former or None,
            "digest": it.digest,
            "seen_at": it.seen_at,
            "summary": self.change.summary,
            "diff": list(self.change.lines),
        }


class StoredTools:
    """The stored definitions of the configuration's principal."""

    def __init__(self, loaded: LoadedSettings, database: Database, thread: DatabaseThread) -> None:
        self._permissions = loaded.settings.permissions
        self._principal = local_principal(loaded.settings)
        self._store = SqliteDefinitions(database, thread)
        self._audit = SqliteAudit(thread)

    def waiting(self, server: str | None) -> list[WaitingTool]:
        """By server and tool."""
        found = self._store.known(self._principal, server)
        tools = {name: by_tool(it for it in found if it.server == name) for name in {it.server for it in found}}
        return [
            WaitingTool(
                it,
                change_of(self._store, it, tools[it.server], self._principal),
                _until_then(it, answer_for(it, self._permissions)),
            )
            for it in sorted(waiting(found), key=lambda it: (it.server, it.tool, it.seen_at))
        ]

    async def accept(self, shown: Sequence[WaitingTool]) -> None:
        """Accept these, and record it."""
        now = time.time()
        for it in shown:
            if await self._store.accept(self._principal, it.definition, at=now):
                self._audit.append(accepted_event(it.definition, self._principal, now))


@contextmanager
def _opened(loaded: LoadedSettings) -> Generator[StoredTools | None]:
    """What is stored in the configuration's state folder; None if there is nothing yet."""
    with state_database(loaded) as thread:
        if thread is None:
            yield None
            return
        with closing(Database(state_folder(loaded.settings))) as database:
            yield StoredTools(loaded, database, thread)


def _until_then(it: KnownDefinition, answer: Answer) -> str:
    if it.tool == SERVER:
        return _ANSWERS["allow"] if answer == "allow" else "the model reads the accepted one"
    return _ANSWERS[answer]


def _page(found: Sequence[WaitingTool]) -> str:
    return "\n\n".join(it.text for it in found)


def _count(found: Sequence[WaitingTool]) -> str:
    names = {it.name for it in found}
    return one_line(names.pop(), _MAX_NAME_CHARACTERS) if len(names) == 1 else f"these {len(names)} tools"
