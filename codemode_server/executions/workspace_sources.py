"""Notes which data the programs of an execution may have written to /workspace, and may have read there."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from codemode_server.executions.execution import Execution
from codemode_server.executions.workspace import Workspace
from codemode_server.gateway.read_sources import CLOCK_SECONDS, ReadSources


@asynccontextmanager
async def followed(
    sources: ReadSources, execution: Execution, workspace: Workspace, is_logged: Callable[[Execution], bool]
) -> AsyncGenerator[None]:
    """Around the run of a program, which sees /workspace all the time. If the program `is_logged` there, its session
    passes on all that it has read.

    Raises:
        JournalUnavailable: what others wrote there can't be found out.
    """
    if not workspace.is_complete():
        workspace.make()
        await anyio.sleep(1.5 * CLOCK_SECONDS)  # else its folders would count as made by the program
    await sources.begin(execution.execution_id, execution.context, has_files=workspace.has_entries())
    own_change, newest = workspace.own_change(), math.inf
    try:
        yield
    finally:
        may_pass_on = sources.may_pass_on(execution.execution_id) and not is_logged(execution)
        if may_pass_on and workspace.own_change() == own_change:
            with anyio.CancelScope(shield=True):
                newest = await anyio.to_thread.run_sync(workspace.newest_change)
        sources.end(execution.execution_id, newest)
