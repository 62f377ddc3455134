"""Starts child processes so that a cancellation at that moment leaves none behind."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import Process


async def start_process(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    start_new_session: bool = True,
) -> Process:
    """Start a process with pipes; the caller ends it and waits for it.

    This is not cancelled: asyncio would kill the process but, cancelled again by anyio, not wait for it. A cancellation
    is raised where the caller waits next, so there must be no `await` before the caller's `try`.

    Raises:
        OSError: it can't be started.
    """
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            start_new_session=start_new_session,
        )
    return process  # noqa: RET504 - mypy takes a `with` that may swallow errors for one without `return`
