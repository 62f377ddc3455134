"""`executions tail`: prints what programs do while they do it, a line for each event, until it is interrupted.

It reads the audit, which every product of the state folder writes, so it follows all hosts of the principal at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import anyio
import anyio.to_thread

from codemode_server.cli.audit_lines import AuditLines
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.domain.ids import ExecutionId
from codemode_server.first_listing import state_folder
from codemode_server.redaction import Redactor
from codemode_server.storage.database import Database
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.storage.sqlite_audit import AuditTail

_POLL_SECONDS = 0.3


async def tail(loaded: LoadedSettings, execution_id: ExecutionId | None, *, rows: int, as_json: bool) -> None:
    """Runs until it is cancelled. `rows`: number of earlier events that are printed first."""
    lines = AuditLines(LiveConfig(loaded.settings, Redactor(loaded.secrets)))
    folder = state_folder(loaded.settings)
    await anyio.to_thread.run_sync(settle_before_reading, folder)
    with closing(Database(folder)) as database:
        found = AuditTail(database, local_principal(loaded.settings), execution_id, rows=rows)
        while True:
            for line in _printed(found, lines, as_json=as_json):
                show(line)
            await anyio.sleep(_POLL_SECONDS)


def _printed(found: AuditTail, lines: AuditLines, *, as_json: bool) -> Iterator[str]:
    for row in found.new_rows():
        yield json.dumps(lines.json(row)) if as_json else lines.line(row)
