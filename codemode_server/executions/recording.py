"""Records executions: their beginnings and ends."""

from __future__ import annotations

import hashlib
from asyncio import create_task
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemode_server.calls.audit import MAX_CODE_CHARACTERS, MAX_ERROR_CHARACTERS
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.executions.execution import Execution
from codemode_server.sandbox.contract import ProgramError
from codemode_server.support.redaction import Payloads, Redactor, recorded_text

if TYPE_CHECKING:
    from codemode_server.storage.journal import Journal


@dataclass(slots=True)
class ExecutionRecorder:
    """Writes of code, values and errors what `state.payloads` allows; only the journal has the complete code."""

    journal: Journal
    config: LiveConfig

    def begin(self, execution: Execution) -> None:
        """Have the start recorded; `execution.wait_recorded` waits for that, and only then may the program run."""
        execution.is_recorded = True
        redactor = execution.caller.redactor
        if not execution.direct_call:
            execution.recorded_code = code_as_configured(execution.code, self.config.payloads, redactor)
        if execution.is_rerun:  # the journal has it
            return
        said = recorded_text(execution.description, redactor, MAX_ERROR_CHARACTERS)
        # Without what repeats it, a replay can't be resumed: then it would send what it has not sent.
        repeat = None if execution.direct_call or execution.is_replay else execution.repeat
        execution.recording = create_task(
            self.journal.begin_execution(
                execution.record(),
                repeat=repeat,
                recorded_code=execution.recorded_code,
                recorded_description=said if said and self.config.payloads == "all" else None,
            )
        )

    async def end(self, execution: Execution) -> None:
        """Record the end; raises `JournalUnavailable` if that fails."""
        error = self._error(execution.outcome.error, execution) if execution.outcome.error else None
        if execution.status is ExecutionStatus.CANCELLED:
            error = "cancelled"
        execution.recorded_error = error
        if execution.is_recorded:
            with suppress(CodemodeError):  # the runner has raised it
                await execution.wait_recorded()
            await self.journal.end_execution(
                execution.execution_id,
                execution.status,
                error=error,
                milliseconds=execution.milliseconds,
                # A program that has called nothing has done nothing that another run would need to know.
                is_awaited=execution.calls.started > 0 or execution.is_rerun,
            )

    def _error(self, error: ProgramError, execution: Execution) -> str:
        """A message may hold values, so it is recorded only where values are."""
        # Even the type is a name that the program chose.
        text = f"{error.type}: {error.message}" if self.config.payloads == "all" else error.setting or error.type
        text += f" (line {error.line})" if error.line is not None and error.setting is None else ""
        return recorded_text(text, execution.caller.redactor, MAX_ERROR_CHARACTERS)


def code_as_configured(code: str, payloads: Payloads, redactor: Redactor) -> str | None:
    """A program as `state.payloads` lets it be recorded and shown."""
    if payloads == "all":
        return recorded_text(code, redactor, MAX_CODE_CHARACTERS)
    digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256 {digest}, {len(code)} characters" if payloads == "shapes" else None
