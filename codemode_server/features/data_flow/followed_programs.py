"""Notes what each program may have passed on by /workspace, and whether the log of its session may have it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread

from codemode_server.domain.flows import SESSION_LOGS, WORKSPACE
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.workspace import SESSIONS, Workspace
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.features.data_flow.source_store import CLOCK_SECONDS


@dataclass(frozen=True, slots=True)
class FollowedPrograms(ExecutionLayer):
    """Around the run of a program, which sees /workspace all the time. One that its session's log has passes on by that
    all that its session has read, which is no change by the program."""

    sources: ReadSources
    workspaces: Callable[[Principal], Workspace]

    def is_for(self, execution: Execution) -> bool:
        return True

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        """Raises `JournalUnavailable` where rules depend on what it may write, and its start can't be recorded."""
        if execution.direct_call:
            yield
            return
        sources, workspace = self.sources, self.workspaces(execution.caller.principal)
        execution.may_be_logged = not sources.has_rules  # it may read something yet
        if not workspace.is_complete():
            workspace.make()
            await anyio.sleep(1.5 * CLOCK_SECONDS)  # else its folders would count as made by the program
        if sources.has_rules:  # others know that it runs before it can write anything
            await execution.wait_recorded()
        began_at, own_change, newest = workspace.now(), workspace.own_change(), math.inf
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                execution.may_be_logged = not await sources.is_restricted(execution.caller)
                has_log = execution.has_log and execution.may_be_logged
                about = execution.execution_id, execution.caller
                if read := await sources.read_by(*about):
                    if workspace.own_change() == own_change:
                        newest = await anyio.to_thread.run_sync(workspace.newest_change, SESSIONS if has_log else "")
                    if newest >= began_at - CLOCK_SECONDS:
                        sources.pass_on(*about, WORKSPACE, read, began_at)
                    elif has_log:
                        sources.pass_on(*about, SESSION_LOGS, read, began_at)

    async def after(self, execution: Execution) -> None:
        self.sources.end_sharing(execution.execution_id)
