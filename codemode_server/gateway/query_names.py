"""Knows what the queries of a session have called the fields of results: `SELECT name AS who` makes `who` a name.

A call may read what an earlier one has made, as the result of a query that was started, or a table. So what a query
called its fields counts in later results of the same server too, as long as the session sends no other query with that
name. Where there are too many names to remember, a field that nothing is known about counts as personal data.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.targets import CallTarget
from codemode_server.json_texts import texts_in
from codemode_server.off_loop import is_large, run_sized

if TYPE_CHECKING:
    from codemode_server.privacy.renamed_fields import Renamed, RenamedFields

_MAX_SESSIONS = 1_000
"""Sessions and servers whose names are remembered."""
_MAX_FORGOTTEN = 50_000
"""Sessions and servers of which only that they had names is remembered."""
_MAX_NAMES = 200
_MAX_SENT = 64
"""Calls without an answer whose arguments are not read again when it comes."""
_FEW_CHARACTERS = 4_000
"""Of arguments that are read on the event loop; each thousand may take 8 ms."""


@dataclass(frozen=True)
class _Remembered:
    """What the queries of a session have named at one server."""

    names: Mapping[str, Renamed] = field(default_factory=dict)
    """Those that were sent last are at the end."""
    is_complete: bool = True

    def with_names(self, named: Mapping[str, Renamed]) -> _Remembered:
        kept = {name: it for name, it in self.names.items() if name not in named} | {**named}
        if len(kept) <= _MAX_NAMES:
            return _Remembered(kept, self.is_complete)
        return _Remembered(dict([*kept.items()][-_MAX_NAMES:]), is_complete=False)


class QueryNames:
    """Built once. Nothing of the detection is imported before it is used."""

    def __init__(self) -> None:
        self._earlier: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._forgotten: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._sent: OrderedDict[int, tuple[Mapping[str, Any], RenamedFields]] = OrderedDict()
        """By the identity of the arguments, which are kept so that no others get it."""

    async def note(self, calls: ExecutionCalls, target: CallTarget, arguments: Mapping[str, Any]) -> None:
        """Remember what a call names before it is sent: another call may read what it makes before it is answered, or
        it may have no answer."""
        if id(arguments) not in self._sent:
            self._sent[id(arguments)] = arguments, await self._read(_key(calls, target), arguments)
            if len(self._sent) > _MAX_SENT:
                self._sent.popitem(last=False)

    async def of(self, calls: ExecutionCalls, target: CallTarget, arguments: Mapping[str, Any]) -> RenamedFields:
        """What the answer to a call with these arguments calls its fields."""
        key = _key(calls, target)
        if (sent := self._sent.pop(id(arguments), None)) is None:
            return await self._read(key, arguments)
        earlier = self._remembered(key)
        return sent[1].with_earlier(earlier.names, misses_earlier=not earlier.is_complete)

    async def _read(self, key: tuple[str, str], arguments: Mapping[str, Any]) -> RenamedFields:
        has_much = is_large(arguments) or sum(map(len, texts_in({**arguments}))) > _FEW_CHARACTERS
        fields, named = await run_sized(has_much, _read, arguments, self._remembered(key))
        if named:
            self._remember(key, named)
        return fields

    def _remembered(self, key: tuple[str, str]) -> _Remembered:
        if key in self._earlier:
            self._earlier.move_to_end(key)
            return self._earlier[key]
        return _Remembered(is_complete=key not in self._forgotten)

    def _remember(self, key: tuple[str, str], named: Mapping[str, Renamed]) -> None:
        self._earlier[key] = self._remembered(key).with_names(named)
        if len(self._earlier) > _MAX_SESSIONS:
            oldest, _ = self._earlier.popitem(last=False)
            self._forgotten[oldest] = None
            self._forgotten.move_to_end(oldest)
            if len(self._forgotten) > _MAX_FORGOTTEN:
                self._forgotten.popitem(last=False)


def _key(calls: ExecutionCalls, target: CallTarget) -> tuple[str, str]:
    return calls.context.session.session_id, target.server.raw_name


def _read(arguments: Mapping[str, Any], earlier: _Remembered) -> tuple[RenamedFields, dict[str, Renamed]]:
    """What the fields are called, and which names are to be remembered."""
    from codemode_server.privacy.queries import renamed_by

    fields = renamed_by(arguments, earlier.names, misses_earlier=not earlier.is_complete)
    return fields, dict(islice(fields.named(), _MAX_NAMES + 1))
