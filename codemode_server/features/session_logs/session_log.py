"""Logs of sessions for their programs: /workspace/sessions/<session>.json, written as programs begin and end.

A log lets a later session continue. Programs can change these files at any time, so they prove nothing (the record is
the journal), folders are opened one from the other without following links, and a file is written under a new name
before it replaces the old one. A log that can't be written fails no program.

A log carries what one session saw to all others of its principal. So a session that has read what `permissions.flows`
restricts is no longer logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import stat
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.executions import MAX_DESCRIPTION_CHARACTERS
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.workspace import SESSIONS, STATE, Workspace
from codemode_server.sandbox.contract import Outcome
from codemode_server.support.background_tasks import OwnsTasks
from codemode_server.support.off_loop import LARGE_BYTES, is_large, run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.support.untrusted_files import used_bytes

_NAME = re.compile(r"(session-[0-9a-f]{1,64}|requests-\d{4}-\d\d-\d\d(-[0-9a-f]{8})?)\.json|\.[0-9a-f]{16}\.unfinished")
"""Names of our files; others in the folder are the programs'."""
_MAX_TOTAL_BYTES = 8 * 2**20
"""All logs of a workspace together; beyond it the oldest are removed."""
_MAX_STATE_FILES = 100
_MAX_CHECKPOINT_CHARACTERS = 64 * 1024
_DAY_SECONDS = 86_400


class LogFiles:
    """The log files of one workspace. Every method does I/O."""

    def __init__(self, workspace: Workspace, workspace_mb: float, days: float) -> None:
        self._workspace = workspace
        self._max_bytes = int(workspace_mb * 2**20)
        self._days = days

    def write(self, name: str, content: bytes, *, is_first: bool, has_room: bool = False) -> None:
        """Write a log; `is_first` of its session, old ones are removed before. If it `has_room`, the workspace is not
        measured. Else there must be room for it and for what it may grow by before it is measured again: a log that
        takes the workspace beyond its quota would end the programs that run. Raises `OSError`, `NotPrivate` if it can't
        be written; the old one stays."""
        if sys.platform == "win32":  # no program has files there
            return
        folder = self._workspace.open_folder(SESSIONS)
        try:
            if is_first:
                self._remove_old(folder, len(content))
            limit = self._max_bytes - len(content) - _MEASURED_AFTER_BYTES
            if not has_room and used_bytes(self._workspace.path, enough=limit) > limit:
                raise OSError("the workspace is full (limits.workspace_mb)")
            unfinished = f".{secrets.token_hex(8)}.unfinished"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(unfinished, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(content)
                os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
        finally:
            os.close(folder)

    def state_files(self) -> list[str]:
        """Files in /workspace/state, as programs name them."""
        with suppress(MetaToolError, OSError):
            entries = self._workspace.list((STATE,))
            names = [it.name for it in entries if not it.is_folder and not it.name.startswith(".")]
            return [f"/workspace/{STATE}/{name}" for name in names[:_MAX_STATE_FILES]]
        return []

    def checkpoint(self) -> JsonValue:
        """The last checkpoint of any session; None if there is none that can be read."""
        with suppress(MetaToolError, OSError, ValueError, RecursionError):
            text = self._workspace.read((STATE, "checkpoint.json"))
            if len(text) <= _MAX_CHECKPOINT_CHARACTERS and isinstance(point := json.loads(text), dict):
                return point
        return None

    def _remove_old(self, folder: int, added_bytes: int) -> None:
        """Remove logs that are older than the retention, and the oldest where all take too much."""
        found: list[tuple[float, int, str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if _NAME.fullmatch(entry.name) and stat.S_ISREG(status.st_mode):
                        found.append((status.st_ctime, status.st_size, entry.name))
        total, until = added_bytes, time.time() - self._days * _DAY_SECONDS
        for changed_at, size, name in sorted(found, reverse=True):
            total += size
            is_left_behind = name.endswith(".unfinished") and changed_at < time.time() - _DAY_SECONDS
            if changed_at < until or total > _MAX_TOTAL_BYTES or is_left_behind:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)


logger = logging.getLogger(__name__)

MAX_TASKS = 100
"""Tasks of one log; of a longer session, the newest."""
_MAX_CODE_CHARACTERS, _MAX_VALUE_CHARACTERS = 8_000, 2_000
_MAX_LOG_CHARACTERS = 256 * 1024
_MEASURED_AFTER_BYTES = 32 * 1024
"""Growth of a log after which it is measured again whether the workspace has room for it."""
_MAX_LOGS = 100
"""Sessions whose tasks are held in memory; the log of one that is idle for longer begins anew."""
_FLUSH_SECONDS = 2.0
_BEGIN_DELAY_SECONDS = 0.05
"""A program that runs for longer is logged before it ends."""


Task = dict[str, str]
"""One program, as its log has it."""


@dataclass(slots=True)
class _Log:
    name: str
    started_at: float
    workspace_mb: int
    """The quota of its principal."""
    tasks: OrderedDict[str, Task] = field(default_factory=OrderedDict)
    left_out: int = 0
    ended_at: float | None = None
    """When the last program ended; None while one runs."""
    version: int = 0
    writing: anyio.Lock = field(default_factory=anyio.Lock)
    written: int = 0
    size: int = 0
    running: set[str] = field(default_factory=set)
    """The ids of the tasks that have not ended."""
    room: int = 0
    """Bytes that it may have before the workspace is measured again."""

    def put(self, task: Task) -> None:
        name = task["task_id"]
        self.size += _size(task) - _size(self.tasks.get(name, {}))
        self.tasks[name] = task
        while len(self.tasks) > MAX_TASKS or (self.size > _MAX_LOG_CHARACTERS and len(self.tasks) > 1):
            oldest, left_out = self.tasks.popitem(last=False)
            self.size -= _size(left_out)
            self.running.discard(oldest)
            self.left_out += 1
        (self.running.add if task["status"] == "running" else self.running.discard)(name)
        self.ended_at = None if self.running else time.time()
        self.version += 1


@dataclass
class SessionLogs(OwnsTasks, ExecutionLayer):
    """The logs of all live sessions; writes them in threads, one write to a log at a time."""

    workspaces: Callable[[Principal], Workspace]
    config: LiveConfig
    _run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells the daily log of this product from those of others, and of its own earlier runs."""
    _logs: OrderedDict[tuple[Principal, str], _Log] = field(default_factory=OrderedDict)
    _threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    _failed: bool = False
    """True if the last write failed, which is logged once."""

    def is_for(self, execution: Execution) -> bool:
        is_real = not (execution.direct_call or execution.is_dry_run or execution.is_replay)
        return is_real and self.config.settings.state.session_days > 0

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        """The program finds what is logged so far; if it runs for long, it is logged before it ends."""
        execution.has_log = True
        key = execution.caller.principal, self._log_name(execution)
        if (log := self._logs.get(key)) is not None and log.written != log.version:
            await self._write(key[0], log)
        beginning = asyncio.get_running_loop().call_later(_BEGIN_DELAY_SECONDS, self._note_running, execution)
        try:
            yield
        finally:
            beginning.cancel()

    def _note_running(self, execution: Execution) -> None:
        if execution.may_be_logged:
            self._put(execution, _task(execution, execution.caller.redactor))

    async def after(self, execution: Execution) -> None:
        """The program has its final status, and its outcome is what the host got."""
        outcome, redactor = execution.outcome, execution.caller.redactor
        if execution.begun.is_set() and execution.has_log and execution.may_be_logged:
            is_long = len(outcome.stdout) > LARGE_BYTES or is_large(outcome.value)
            self._put(execution, await run_sized(is_long, _ended, execution, redactor))

    def _put(self, execution: Execution, task: Task) -> None:
        key = execution.caller.principal, self._log_name(execution)
        log = self._logs.setdefault(key, _Log(key[1], execution.started_at, execution.limits.workspace_mb))
        self._logs.move_to_end(key)
        if len(self._logs) > _MAX_LOGS:
            self._logs.popitem(last=False)
        log.put(task)
        if self._tasks is not None:
            self._tasks.start_soon(self._write, key[0], log)

    def _log_name(self, execution: Execution) -> str:
        """Sessions that end with their request have one log for each day and product."""
        if execution.session.is_ephemeral:
            return f"{time.strftime('requests-%Y-%m-%d', time.gmtime(execution.started_at))}-{self._run_id}"
        return f"session-{execution.session.session_id}"

    async def _write(self, principal: Principal, log: _Log) -> None:
        async with log.writing:
            if log.written == log.version:
                return
            version, tasks = log.version, list(log.tasks.values())
            head: dict[str, Any] = {
                "session_id": log.name,
                "customer_uid": principal.principal_id,  # the format of session logs has this name
                "started_at": _time(log.started_at),
                "ended_at": None if log.ended_at is None else _time(log.ended_at),
                "tasks": tasks,
                **({"left_out": log.left_out} if log.left_out else {}),
            }
            days, redactor = self.config.settings.state.session_days, self.config.redactor_of(principal)
            files = LogFiles(self.workspaces(principal), log.workspace_mb, days)

            def write() -> None:
                head["state_files"] = files.state_files()
                head["checkpoint"] = redactor.value(files.checkpoint())
                text = json.dumps(head, ensure_ascii=False, indent=1)
                content = text.encode("utf-8", "replace")
                room, log.room = log.room, 0
                has_room = len(content) <= room
                files.write(f"{log.name}.json", content, is_first=log.written == 0, has_room=has_room)
                log.room = room if has_room else len(content) + _MEASURED_AFTER_BYTES

            try:
                await anyio.to_thread.run_sync(write, abandon_on_cancel=True, limiter=self._threads)
                self._failed = False
            except (OSError, CodemodeError, ValueError, RecursionError) as error:
                logger.log(logging.DEBUG if self._failed else logging.WARNING, "a session log: %s", error)
                self._failed = True
            log.written = version

    async def _release(self) -> None:
        """Write what the cancelled tasks did not."""
        with anyio.move_on_after(_FLUSH_SECONDS):
            for (principal, _), log in self._logs.items():
                await self._write(principal, log)


def _task(execution: Execution, redactor: Redactor, **ended: str) -> Task:
    return {
        "task_id": execution.execution_id,
        "description": _beginning(execution.description, redactor, MAX_DESCRIPTION_CHARACTERS),
        "code": _beginning(execution.code, redactor, _MAX_CODE_CHARACTERS),
        "status": "running",
        "result": "",
        "output": "",
        **ended,
        "timestamp": _time(execution.started_at),
    }


def _ended(execution: Execution, redactor: Redactor) -> Task:
    outcome = execution.outcome
    texts = {"result": _as_text(outcome), "output": outcome.stdout}
    if outcome.error is not None:
        texts["error"] = f"{outcome.error.type}: {outcome.error.message}"
    shown = {name: _beginning(text, redactor, _MAX_VALUE_CHARACTERS) for name, text in texts.items()}
    return _task(execution, redactor, status=execution.status.value, **shown)


def _size(task: Task) -> int:
    return sum(map(len, task.values()))


def _beginning(text: str, redactor: Redactor, limit: int) -> str:
    """The beginning of a text, masked; megabytes of output are neither searched nor copied for it."""
    shown = redactor.head(text, limit)
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters in all)"


def _as_text(outcome: Outcome) -> str:
    """The beginning of the value, as JSON where it is no text; a long value is not written in full for that."""
    if outcome.value_form == "none":
        return ""
    if isinstance(outcome.value, str):
        return outcome.value
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(outcome.value):
        text += piece
        if len(text) > 2 * _MAX_VALUE_CHARACTERS:
            break
    return text


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
