"""Knows what the queries of a session have called the fields of results: `SELECT name AS who` makes `who` a name.

A call may read what an earlier one has made, as the result of a query that was started, or a table. So what a query
called its fields counts in later results of the same server too, as long as the session sends no other query with that
name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
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
_MAX_NAMES = 200
_FEW_CHARACTERS = 4_000
"""Of arguments that are read on the event loop; each thousand may take 8 ms."""


class QueryFields:
    """Built once. Nothing of the detection is imported before it is used."""

    def __init__(self) -> None:
        self._earlier: OrderedDict[tuple[str, str], dict[str, Renamed]] = OrderedDict()

    async def of(self, calls: ExecutionCalls, target: CallTarget, arguments: Mapping[str, Any]) -> RenamedFields:
        """What the answer to a call with these arguments calls its fields."""
        key = calls.context.session.session_id, target.server.raw_name
        earlier = self._earlier.get(key, {})
        has_much = is_large(arguments) or sum(map(len, texts_in({**arguments}))) > _FEW_CHARACTERS
        fields, named = await run_sized(has_much, _read, arguments, earlier)
        if named:
            kept = {**self._earlier.pop(key, {}), **named}
            self._earlier[key] = dict([*kept.items()][-_MAX_NAMES:])
            if len(self._earlier) > _MAX_SESSIONS:
                self._earlier.popitem(last=False)
        return fields


def _read(arguments: Mapping[str, Any], earlier: Mapping[str, Renamed]) -> tuple[RenamedFields, dict[str, Renamed]]:
    """What the fields are called, and which names are to be remembered."""
    from codemode_server.privacy.queries import renamed_by

    fields = renamed_by(arguments, earlier)
    return fields, dict(islice(fields.named(), _MAX_NAMES))
