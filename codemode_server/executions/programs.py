"""Runs one program: has it checked, gives it to the sandbox with its host's side, and collects what the model gets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.refusals import ToolRefusals
from codemode_server.config.live import Caller
from codemode_server.domain.calls import ANY, CallStatus, ResultKey
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution, Phase
from codemode_server.executions.host_api import ProgramHostApi, ProgramServices
from codemode_server.executions.layers import ExecutionLayers
from codemode_server.executions.preflight.preflight import CheckContext, Checked, Preflight
from codemode_server.executions.workspace import Workspace
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.sandbox.contract import Ending, Outcome, Program, ProgramError, SandboxBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRuns:
    sandbox: Sandbox
    services: ProgramServices
    layers: ExecutionLayers
    preflight: Preflight
    refusals: Callable[[Caller], ToolRefusals]
    workspaces: Callable[[Principal], Workspace]

    async def prepare(self, execution: Execution) -> Outcome | None:
        """Wait for the sandbox, and let the layers change the code; the outcome of one that is not to run. Raises
        `SandboxUnavailable`."""
        execution.phase = Phase.PREPARING
        backend = await self.sandbox.ready()
        execution.level = backend.level
        return await self.layers.prepare(execution)

    async def run(self, execution: Execution) -> Outcome:
        """The outcome of a program after `prepare`."""
        backend = await self.sandbox.ready()
        workspace = self.workspaces(execution.caller.principal)
        execution.phase = Phase.CHECKING
        context = self._check_context(execution, backend, workspace)
        checked = await self.preflight.check(execution.code, context)
        gateway, is_rejected = self.services.gateway, bool(checked.errors)
        if checked.imports and await gateway.offer_sign_ins(execution.calls, checked.imports, is_rejected=is_rejected):
            checked = await self.preflight.check(execution.code, context)
        execution.checked = checked
        if checked.errors:
            execution.warnings += checked.warning_lines()
            error = ProgramError("CheckFailed", checked.message, line=checked.errors[0].line)
            return Outcome(Ending.RAISED, error=error)
        execution.phase = Phase.RUNNING
        execution.calls.doubted_keys = checked.doubted_keys
        host_api = ProgramHostApi(execution, self.services, self.layers)
        await execution.wait_recorded()
        try:
            async with AsyncExitStack() as stack:
                await self.layers.around_run(execution, stack)
                program = Program(
                    execution.execution_id,
                    execution.code,
                    execution.limits,
                    execution.workspace or workspace.make(),
                    session_id=execution.session.session_id,
                    # A sandbox with the copy of a workspace is of no use to later programs.
                    is_last=execution.session.is_ephemeral or execution.workspace is not None,
                    modules=host_api.modules(checked.imports),
                    begun=execution.begun,
                    host_wait=execution.calls.host_wait,
                    repeat=execution.repeat,
                )
                execution.outcome = await backend.run(program, host_api)
        except BaseException:  # what not all layers have let through is not stored
            execution.outcome, execution.plan = Outcome(Ending.DIED), None
            raise
        if checked.warnings:
            execution.warnings += _left_warnings(execution, checked)
        return execution.outcome

    def _check_context(self, execution: Execution, backend: SandboxBackend, workspace: Workspace) -> CheckContext:
        skills = self.services.skills
        return CheckContext(
            backend.importable,
            partial(self.services.artifacts.last_value, execution.owner),
            self.refusals(execution.caller).of,
            workspace.may_have_module,
            None if skills is None else partial(skills.why_missing, execution.owner),
            packages=backend.packages,
        )


def _left_warnings(execution: Execution, checked: Checked) -> list[str]:
    raised, has_succeeded = execution.outcome.error, execution.outcome.ending is Ending.RETURNED
    is_refuted = partial(refutes, execution.calls, has_succeeded=has_succeeded)
    return checked.warning_lines(is_refuted, "" if raised is None else raised.message)


def refutes(calls: ExecutionCalls, doubted: ResultKey, *, has_succeeded: bool) -> bool:
    """True if a run had the result that a warning doubted, or went well without this server."""
    if doubted.key:
        return doubted in calls.received_keys
    made = [it for it in calls.reports if it.server == doubted.server and doubted.tool in ("", ANY, it.tool)]
    went_well = all(it.status is CallStatus.SUCCEEDED for it in made)
    return went_well and bool(made or (has_succeeded and not doubted.tool))
