"""Passes programs, the skills that they import and their results through the guardrails.

A result is withheld before anything of it is stored, so that no later program can read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from codemode_server.domain.calls import Deny
from codemode_server.domain.errors import MetaToolError, ResultWithheld
from codemode_server.domain.executions import PlanReport
from codemode_server.executions.execution import DirectCall, Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.features.guardrails.chain import GuardrailChain
from codemode_server.features.guardrails.guardrail import GuardedProgram, ProgramResult
from codemode_server.sandbox.contract import Ending, Outcome, ProgramError


@dataclass(frozen=True, slots=True)
class GuardedPrograms(ExecutionLayer):
    chain: GuardrailChain

    def is_for(self, execution: Execution) -> bool:
        return bool(self.chain.guardrails)

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        yield
        if execution.direct_call is not None:
            await self._guard_result(execution, execution.direct_call)
            return
        execution.outcome = await self._after(execution, execution.outcome)
        if execution.plan is not None:
            execution.plan = await self._plan(execution, execution.plan)

    async def prepare(self, execution: Execution) -> Outcome | None:
        """Give the execution the code that the guardrails leave; the outcome if they block it."""
        found = await self.chain.before_program(_program(execution))
        if isinstance(found.decision, Deny):
            return _blocked("GuardrailBlocked", f"the program was not run: {_advice(found.decision)}")
        execution.code, execution.calls.question = found.value, found.decision
        execution.warnings += [f"the program was {change}" for change in found.changes]
        return None

    async def take_text(self, execution: Execution, text: str) -> str:
        """The text of a skill that a program imports, as the guardrails leave it: it is code as the program's own.
        Raises `MetaToolError` if they block it."""
        found = await self.chain.before_program(replace(_program(execution), code=text))
        if isinstance(found.decision, Deny):
            raise MetaToolError(f"the skill is not imported: {_advice(found.decision)}")
        execution.calls.question = found.decision or execution.calls.question
        return found.value

    async def _after(self, execution: Execution, outcome: Outcome) -> Outcome:
        """The outcome that the model and the stores get."""
        error = outcome.error
        texts = (error.message, error.traceback, error.hint) if error is not None else ()
        before = ProgramResult(outcome.value, outcome.stdout, outcome.stderr, "\n".join(filter(None, texts)))
        found = await self.chain.on_result(_program(execution), before)
        if isinstance(found.decision, Deny):
            execution.shown.clear()
            withheld = f"the program has run, and its result is withheld: {_advice(found.decision)}"
            blocked = _blocked("ResultWithheld", withheld)
            return replace(blocked, program_ms=outcome.program_ms, upstream_ms=outcome.upstream_ms)
        if not found.changes:
            return outcome
        execution.warnings += [f"the result was {change}" for change in found.changes]
        after = found.value
        if error is not None and after.error != before.error:
            error = replace(error, message=after.error, traceback="", hint="")
        form = "json" if after.value is not None and outcome.value_form == "none" else outcome.value_form
        return replace(
            outcome, value=after.value, value_form=form, stdout=after.stdout, stderr=after.stderr, error=error
        )

    async def _plan(self, execution: Execution, plan: PlanReport) -> PlanReport:
        """The plan of a dry run as the model and the stores get it: arguments may hold what the program has read."""
        if not plan.lines:
            return plan
        before = {"lines": list(plan.lines), "calls": list(plan.calls)}
        found = await self.chain.on_result(_program(execution), ProgramResult(before))
        if isinstance(found.decision, Deny):
            execution.warnings.append(f"the plan is withheld: {found.decision.reason}")
            return replace(plan, lines=(), calls=())
        if not found.changes:
            return plan
        execution.warnings += [f"the plan was {change}" for change in found.changes]
        match found.value.value:
            case {"lines": [*lines], "calls": [*calls]} if all(isinstance(it, str) for it in lines):
                return replace(plan, lines=tuple(lines), calls=tuple(it for it in calls if isinstance(it, dict)))
        return replace(plan, lines=(), calls=())

    async def _guard_result(self, execution: Execution, call: DirectCall) -> None:
        """The result of a direct call that the host gets. Raises `ResultWithheld` if a guardrail blocks it."""
        found = await self.chain.on_result(_program(execution), ProgramResult(call.reply))
        if isinstance(found.decision, Deny):
            raise ResultWithheld(f"the tool was called, and its result is withheld: {found.decision.reason}")
        if found.changes and not isinstance(found.value.value, dict):
            raise ResultWithheld("the tool was called, and its result is withheld: a guardrail made it unreadable")
        call.reply = found.value.value


def _program(execution: Execution) -> GuardedProgram:
    return GuardedProgram(execution.code, execution.caller.principal.principal_id, execution.execution_id)


def _advice(denied: Deny) -> str:
    return f"{denied.reason.rstrip('.')}. Do not try again; tell the user."


def _blocked(kind: str, message: str) -> Outcome:
    return Outcome(Ending.RAISED, error=ProgramError(kind, message))
