"""The page of all tools: what each does, its effect, how often it was called, and when last."""

from __future__ import annotations

import anyio.to_thread

from codemode_server.domain.history import ToolUse
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools
from codemode_server.records.reports import Column, Report, ReportPage, Row, key_of
from codemode_server.storage.history import MAX_COUNTED_CALLS

_MAX_SHOWN = 1_000
_NEVER = ToolUse(0, 0.0)


async def _read(records: Records, _: str) -> Report:
    uses = await records.history.uses(records.principal)

    def rows() -> list[tuple[ToolUse, Row]]:
        found = []
        with KnownTools.of(records.present()) as known:
            for server in known.catalog.servers:
                for tool in server.tools:
                    use = uses.get((server.raw_name, tool.raw_name), _NEVER)
                    name = (f"{server.name}.{tool.name}", *([tool.summary] if tool.summary else []))
                    cells = name, tool.effect.value, use.calls, use.last_at or None
                    found.append((use, Row(cells, f"tools/{key_of(server.raw_name)}/{key_of(tool.raw_name)}")))
        return found

    found = await anyio.to_thread.run_sync(rows)
    found.sort(key=lambda it: -it[0].last_at)
    about = f"As the servers listed them last. Calls are those of the newest {MAX_COUNTED_CALLS:,} that were sent."
    return Report([row for _, row in found[:_MAX_SHOWN]], [about], max(0, len(found) - _MAX_SHOWN))


TOOLS = ReportPage(
    name="tools",
    title="Tools",
    columns=(Column("Tool"), Column("Effect"), Column("Calls", "number"), Column("Last call", "moment")),
    read=_read,
    empty="No tools are known yet. A server lists them when it is started: test it on the page of servers.",
)
