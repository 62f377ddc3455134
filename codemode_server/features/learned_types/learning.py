"""Observes the result types of tools from their calls, and stores them.

A call only updates memory; `save` writes the changes of several calls to disk together. Stubs change only if a type
changes or the number of calls reaches the next round number.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Set
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from codemode_server.calls.events import CallEnded, CallEvent
from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.observed import NOTHING_YET, Observed, ToolKey, observe, schemas_digest
from codemode_server.catalog.shapes import outline
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Recorded, ResultKey
from codemode_server.domain.tools import ToolDefinition
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import values_in

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache, Entry

logger = logging.getLogger(__name__)

MAX_TOOLS = 1_000
"""Tools in memory; beyond that, the least recently called are forgotten."""
_MAX_VALUES = 200_000
"""Values of one result in which keys are looked for that the check before the run has doubted."""
_MAX_APART = 64
"""Unwritten observations of one tool that are held separately, so that the event loop merges each only once."""


class Learning:
    """The observed result types of all tools."""

    def __init__(self, store: Cache | None = None, config: LiveConfig | None = None) -> None:
        """Without a store, or with `payloads: none`, observations are lost with the process."""
        self._all_stored = store
        self._config = config or LiveConfig()
        self._stored: dict[tuple[str, str], dict[str, bytes]] | None = None
        """Observations on disk that were not read yet: upstream and tool → digest → JSON."""
        self._known: dict[ToolKey, Observed] = {}
        self._learned: set[tuple[str, str]] = set()
        self._outlines: dict[ToolKey, tuple[object, ...]] = {}
        self._unsaved: dict[ToolKey, list[Observed]] = {}
        self._news: dict[ToolKey, Observed] = {}

    @property
    def _is_on(self) -> bool:
        return self._config.settings.types.learn

    @property
    def _store(self) -> Cache | None:
        return None if self._config.payloads == "none" else self._all_stored

    def follow_config(self) -> None:
        """Forget what an edited `state.payloads` no longer allows to be stored."""
        if self._store is None:
            self._unsaved = {}

    def load(self) -> None:
        """Read the stored observations. Later calls do nothing."""
        self._on_disk()

    def known(self, upstream: str, definition: ToolDefinition) -> Observed | None:
        """The observed types of a tool of an upstream (raw name); None if learning is turned off."""
        if not self._is_on:
            return None
        if (upstream, definition.name) not in self._on_disk() and (upstream, definition.name) not in self._learned:
            return NOTHING_YET  # true of most tools, so this saves a digest
        return self._of(ToolKey(upstream, definition.name, schemas_digest(definition))) or NOTHING_YET

    def take_event(self, event: CallEvent) -> None:
        """A subscriber of calls. Raw results, and errors that came as normal results, teach nothing, nor does a
        dry run."""
        match event:
            case CallEnded(calls=calls, call=call, target=ToolTarget(tool=tool) as target, reply=Reply() as reply):
                is_recorded = isinstance(event.decision, Recorded)  # it was learned when it was made
                is_taught = calls.captured is None and not target.is_raw and event.result.unmarked_error is None
                if (is_recorded or is_taught) and (doubted := calls.doubted_keys_of(tool)):
                    calls.received_keys |= {
                        ResultKey(tool.server, tool.name, it) for it in keys_in(reply.value, doubted)
                    }
                if is_taught and not is_recorded and self._is_on:
                    self._learn(call.server, tool, call.arguments, reply)
            case _:
                pass

    def _learn(self, upstream: str, tool: Tool, arguments: dict[str, Any], reply: Reply) -> None:
        seen = observe(arguments, reply.value, reply.encoding, is_block_list=reply.is_block_list)
        key = ToolKey(upstream, tool.raw_name, tool.schemas_digest)
        before = self._of(key)
        self._adopt(key, before, before.merged(seen) if before else seen)
        if self._store is not None:
            unsaved = self._unsaved.setdefault(key, [])
            unsaved.append(seen)
            if len(unsaved) > _MAX_APART:
                unsaved[:] = [reduce(Observed.merged, unsaved)]

    def take_news(self) -> dict[ToolKey, Observed]:
        """Observations that change stubs, since the last call of this method."""
        news, self._news = self._news, {}
        return news

    async def save(self) -> bool:
        """Write what was learned since the last time; False if that failed."""
        if self._store is None or not self._unsaved:
            return True
        unsaved, self._unsaved = self._unsaved, {}
        totals = dict[ToolKey, Observed]()

        def merged(key: ToolKey, entry: Entry | None) -> Entry:
            stored = Observed.from_json(entry[0]) if entry else None
            new = reduce(Observed.merged, unsaved[key])
            totals[key] = stored.merged(new) if stored else new
            return totals[key].to_json().encode(), time.time()

        if not await self._store.update({key: partial(merged, key) for key in unsaved}):
            for key, seen in self._unsaved.items():
                unsaved.setdefault(key, []).extend(seen)
            self._unsaved = unsaved
            self.follow_config()  # it may have been edited meanwhile
            return False
        for key, total in totals.items():
            before = self._known.get(key)
            total = reduce(Observed.merged, self._unsaved.get(key, ()), total)
            if before is None or total.calls > before.calls:  # another product on the same database learned as well
                self._adopt(key, before, total)
        return True

    def _of(self, key: ToolKey) -> Observed | None:
        found = self._known.get(key)
        if found is None and (texts := self._on_disk().get((key.upstream, key.tool))):
            found = Observed.from_json(texts.pop(key.schemas, b""))
            if found is not None:
                self._known[key] = found
        return found

    def _adopt(self, key: ToolKey, before: Observed | None, now: Observed) -> None:
        self._known.pop(key, None)
        self._known[key] = now
        self._learned.add((key.upstream, key.tool))
        if len(self._known) > MAX_TOOLS:
            oldest = next(iter(self._known))
            for known in (self._known, self._outlines):
                known.pop(oldest, None)
        now_outline = outline(now.result_shape)
        if before is None or _round(before.calls) != _round(now.calls) or self._outlines.get(key) != now_outline:
            self._news[key] = now
        self._outlines[key] = now_outline

    def _on_disk(self) -> dict[tuple[str, str], dict[str, bytes]]:
        if self._stored is None:
            self._stored = {}
            for (upstream, tool, schemas), (text, _) in (self._store.load() if self._store else {}).items():
                self._stored.setdefault((upstream, tool), {})[schemas] = text
        return self._stored


def _round(calls: int) -> int:
    """The last round number up to this one: 1, 2, 3, 5, 10, 20, 30, 50 …"""
    power = int(10 ** (len(str(calls)) - 1))
    first = calls // power
    return (5 if first >= 5 else min(first, 3)) * power


def keys_in(value: Any, wanted: Set[str]) -> set[str]:
    """Those of the wanted keys that any dict in a JSON value has."""
    found: set[str] = set()
    for inner in values_in(value, most=_MAX_VALUES):
        if isinstance(inner, dict):
            found |= wanted & inner.keys()
        if len(found) >= len(wanted):
            break
    return found
