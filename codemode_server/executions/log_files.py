"""The files of session logs in a workspace: written whole, within the quota, and removed when they are old.

Programs may change everything in the workspace at any time. So folders are opened one from the other without following
links, and a file is written under a new name before it replaces the old one.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
import time
from contextlib import suppress

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.ids import JsonValue
from codemode_server.executions.workspace import SESSIONS, STATE, Workspace
from codemode_server.untrusted_files import used_bytes

_NAME = re.compile(r"(session-[0-9a-f]{1,64}|requests-\d{4}-\d\d-\d\d(-[0-9a-f]{8})?)\.json|\.[0-9a-f]{16}\.unfinished")
"""Names of our files; others in the folder are the programs'."""
_MAX_TOTAL_BYTES = 8 * 2**20
"""All logs of a workspace together; beyond it the oldest are removed."""
_MAX_STATE_FILES = 100
_MAX_CHECKPOINT_CHARACTERS = 64 * 1024
_DAY_SECONDS = 86_400


class WorkspaceFull(OSError):
    """Raised when a log has no room in the workspace."""


class LogFiles:
    """The log files of one workspace. Every method does I/O."""

    def __init__(self, workspace: Workspace, workspace_mb: float, days: float) -> None:
        self._workspace = workspace
        self._max_bytes = int(workspace_mb * 2**20)
        self._days = days

    def write(self, name: str, content: bytes, *, is_first: bool) -> None:
        """Write a log; `is_first` of its session, old ones are removed before.

        Raises:
            OSError, NotPrivate: it can't be written; the old one stays.
        """
        if sys.platform == "win32":  # no program has files there
            return
        folder = self._workspace.open_folder(SESSIONS)
        try:
            if is_first:
                self._remove_old(folder, len(content))
            if used_bytes(self._workspace.path, self._max_bytes) + len(content) > self._max_bytes:
                raise WorkspaceFull("the workspace is full (limits.workspace_mb)")
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
