"""The tools whose definitions wait for the person, each with what differs, and how they are accepted.

Only definitions that a server has in its last listing are shown. What is accepted are those that were shown, by their
digests: one that is listed meanwhile still waits, and one that is not listed any more is not accepted.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread

from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.definitions import (
    SERVER,
    KnownDefinition,
    KnownTools,
    by_tool,
    fields_of,
    server_definition,
    waiting,
)
from codemode_server.features.changed_tools.definition_store import DefinitionStore
from codemode_server.features.changed_tools.tool_definitions import is_hidden, kind_of, review_event
from codemode_server.startup import first_lists
from codemode_server.startup.stores import state_folder
from codemode_server.storage.audit import Audit
from codemode_server.storage.cache import LISTINGS, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.support.text import escaped, first_lines, one_line
from codemode_server.upstreams.cache import fingerprint
from codemode_server.upstreams.listing_store import ListingStore

MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class WaitingTool:
    definition: KnownDefinition
    change: tuple[str, ...]
    until_then: str
    """The decision on its calls until then."""

    @property
    def name(self) -> str:
        return f"{self.definition.server}/{self.definition.tool}"

    @property
    def title(self) -> str:
        kind = kind_of(self.definition)
        return f"{one_line(self.name, MAX_NAME_CHARACTERS)}: {kind}; {self.until_then}"

    @property
    def text(self) -> str:
        return "\n".join([self.title, *(f"    {line}" for line in self.change)])


class StoredTools:
    def __init__(self, loaded: LoadedSettings, database: Database, thread: DatabaseThread) -> None:
        self._loaded, self._settings = loaded, loaded.settings
        self._principal = local_principal(loaded.settings)
        settings = loaded.settings
        texts = SealedTexts(JournalCipher(state_folder(settings), settings.state.key))
        self._store = DefinitionStore(database, thread, texts)
        self._listings = partial(ListingStore, Cache(database, thread, LISTINGS), texts)
        self._audit = Audit(thread)

    def waiting(self, server: str | None) -> list[WaitingTool]:
        found = self._store.known(self._principal, server)
        tools = {name: by_tool(it for it in found if it.server == name) for name in {it.server for it in found}}
        return [
            WaitingTool(
                it,
                self._change(it, tools[it.server]),
                _until_then(it, is_hidden=is_hidden(it, self._settings.permissions)),
            )
            for it in sorted(self._offered(waiting(found)), key=lambda it: (it.server, it.tool, it.seen_at))
        ]

    def _change(self, it: KnownDefinition, known: KnownTools) -> tuple[str, ...]:
        accepted = [one for one in known.get(it.former, {}).values() if one.is_accepted and one.digest != it.digest]
        before = max(accepted, key=lambda one: one.accepted_at or 0.0, default=None)
        return change_between(*(fields_of(self._text(one)) for one in (before, it)))

    def _text(self, it: KnownDefinition | None) -> str:
        return self._store.text(self._principal, it.server, it.tool, it.digest) if it else ""

    async def accept(self, shown: Sequence[WaitingTool]) -> list[WaitingTool]:
        """Accept those of these that are still offered, and record it; returns them."""
        now, accepted = time.time(), list[WaitingTool]()
        definitions = [it.definition for it in shown]
        offered = await anyio.to_thread.run_sync(lambda: {*self._offered(definitions)})
        for it in shown:
            if it.definition in offered and await self._store.accept(self._principal, it.definition, at=now):
                self._audit.append(review_event(it.definition, self._principal, now, is_accepted=True))
                accepted.append(it)
        await anyio.to_thread.run_sync(first_lists.forget, self._loaded)
        return accepted

    def _offered(self, definitions: Iterable[KnownDefinition]) -> Iterator[KnownDefinition]:
        """Those that a configured server lists now, as far as its last listing is stored."""
        listings, digests = self._listings(), dict[str, set[str]]()
        for it in definitions:
            settings = self._settings.servers.get(it.server)
            if settings is None or not (it.tool == SERVER or settings.tools.selects(it.tool)):
                continue
            if (listed := listings.get(it.server, fingerprint(settings))) is not None and it.server not in digests:
                about = server_definition(listed.description)
                digests[it.server] = {one.digest for one in (*listed.tools, about)}  # which include the name
            if listed is None or it.digest in digests[it.server]:
                yield it


def accepted_text(accepted: Sequence[WaitingTool]) -> str:
    if not accepted:
        return "nothing was accepted: none of them is offered any more"
    return f"accepted: {', '.join(dict.fromkeys(one_line(it.name, MAX_NAME_CHARACTERS) for it in accepted))}"


def digest_of_review(shown: Sequence[WaitingTool]) -> str:
    """Differs if other definitions wait than those that were shown, or if they differ from something else."""
    parts = [part for it in shown for part in (it.definition.digest, *it.change)]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _until_then(it: KnownDefinition, *, is_hidden: bool) -> str:
    if not is_hidden:
        return "calls are not held back"
    return "hidden" if it.tool == SERVER else "hidden, calls are refused"


_PARTS = {
    "name": "name",
    "title": "title",
    "description": "description",
    "inputSchema": "parameters",
    "outputSchema": "result",
    "effect": "effect",
    "closedWorld": "claim to deal with nothing outside of its server",
}
_MAX_COMPARED_LINES = 1_000
"""Longer texts are shown as removed and added, since comparing takes the square of the time."""
_MAX_LINE_CHARACTERS = 160
MAX_LINES = 400


def shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(first_lines(lines, MAX_LINES, "… and {:,} more lines"))


def change_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The difference of two canonical definitions as a unified diff, without limit of length; of an empty one nothing
    is known, so all of the other is shown."""
    changed = [part for part in _PARTS if before.get(part) != after.get(part)] if before else []
    return tuple(line for part in changed or _PARTS for line in _diff(part, before.get(part), after.get(part)))


def _diff(part: str, before: Any, after: Any) -> Iterator[str]:
    old, new = _lines(before), _lines(after)
    if old == new:
        return
    yield f"@@ {_PARTS[part]} @@"
    if len(old) + len(new) <= _MAX_COMPARED_LINES:
        yield from list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
        return
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    yield from (f"-{line}" for line in old[start:])
    yield from (f"+{line}" for line in new[start:])


def _lines(value: Any) -> list[str]:
    """A text by sentences, anything else as indented JSON; each line is escaped and of bounded length."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        found = re.split(r"(?<=[.!?:;]) ", value)
    else:
        found = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True).split("\n")
    return [piece for line in found for piece in _pieces(escaped(line))]


def _pieces(line: str) -> Iterator[str]:
    for start in range(0, len(line) or 1, _MAX_LINE_CHARACTERS):
        yield line[start : start + _MAX_LINE_CHARACTERS]
