"""`executions export`: recorded executions for other software, with the same masks as everywhere.

`json` is a list, `jsonl` an execution a line, and `session` has the form of the logs in /workspace/sessions, from the
journal, which no program can change. The journal has no values and output of programs, so they are empty there.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

from codemode_server.cli.execution_records import ExecutionRecords, moment
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import ExecutionRecord
from codemode_server.executions.session_log import Task
from codemode_server.private_files import open_private

Format = Literal["json", "jsonl", "session"]
FORMATS: tuple[Format, ...] = ("json", "jsonl", "session")


async def export(loaded: LoadedSettings, form: Format, *, since: float, output: Path | None) -> None:
    """Write all executions that started since then, oldest first, to standard output or a new private file.

    Raises:
        CodemodeError: the file is there already, or can't be written.
    """
    async with ExecutionRecords(loaded) as records:
        pieces = _sessions(records, since) if form == "session" else _executions(records, form, since)
        if output is None:
            async for piece in pieces:
                show(piece)
            return
        try:
            descriptor = open_private(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                async with aclosing(pieces):
                    async for piece in pieces:
                        file.write(f"{piece}\n")
        except FileExistsError as error:
            raise CodemodeError(f"{output} is there already; name a new file") from error
        except OSError as error:
            raise CodemodeError(f"{output} can't be written: {error.strerror}") from error


async def _executions(records: ExecutionRecords, form: Format, since: float) -> AsyncGenerator[str]:
    """Lines; of a list, with its brackets."""
    is_list, before = form == "json", ""
    if is_list:
        yield "["
    for name in [it.execution_id for it in reversed(await records.executions(None, since=since))]:
        if (recorded := await records.find(name)) is None:  # it was deleted meanwhile
            continue
        found, calls, _ = recorded
        retries = await records.retries(name)
        content = records.execution_json(found) | {
            "calls": [records.call_with_values(it, retries.get(it.call.seq, ())) for it in calls]
        }
        line = json.dumps(content)
        if is_list:
            if before:
                yield f"{before},"
            before = line
        else:
            yield line
    if is_list:
        if before:
            yield before
        yield "]"


async def _sessions(records: ExecutionRecords, since: float) -> AsyncGenerator[str]:
    sessions: dict[str, list[ExecutionRecord]] = {}
    for it in reversed(await records.executions(None, since=since)):
        if it.level is not None and not it.is_dry_run:  # the logs have programs alone, and only what they really did
            sessions.setdefault(it.session.session_id, []).append(it)
    yield json.dumps([_session(records, name, found) for name, found in sessions.items()], indent=1)


def _session(records: ExecutionRecords, name: str, found: list[ExecutionRecord]) -> dict[str, Any]:
    shown = [records.execution_json(it) for it in found]
    ended = [it.ended_at for it in found]
    return {
        "session_id": f"session-{name}",
        "customer_uid": records.principal.principal_id,  # the form has this name
        "started_at": moment(found[0].started_at),
        "ended_at": None if None in ended else moment(max(filter(None, ended))),
        "tasks": [
            Task(
                it.execution_id,
                fields["description"] or "",
                fields["code"] or "",
                it.started_at,
                it.status.value,
                error=fields["error"] or "",
            ).as_json()
            for it, fields in zip(found, shown, strict=True)
        ],
    }
