"""Reports each call to the model, beside the result of the program. Subscribes to the events of calls.

A call that failed on a path in /workspace is explained: that folder is in the sandbox, and servers can't read it.
"""

from __future__ import annotations

import re

from codemode_server.calls import summaries
from codemode_server.calls.events import CallApprovalRequested, CallEnded, CallEvent, CallSending, CallUnresolved
from codemode_server.calls.execution_calls import CallReport, RunningCall, UnmarkedErrors
from codemode_server.calls.targets import ToolTarget, title_of
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, CallStatus, Recorded
from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import values_in
from codemode_server.support.text import clean_line


class CallReports:
    """Writes reports and messages into the `ExecutionCalls`."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallUnresolved(calls, seq, server, tool, error):
                calls.reports.append(CallReport(seq, server, tool, CallStatus.INVALID, 0.0, error=error))
            case CallSending(calls, call, target, progress):
                calls.in_flight[call.seq] = RunningCall(title_of(target), progress, target.effect)
            case CallApprovalRequested(calls, call, target):
                shown = summaries.of_arguments(call.arguments, calls.caller.redactor, _MAX_ASKED_CHARACTERS)
                written = ", ".join(f"{name}={value}" for name, value in shown.items())
                arguments = clean_line(written, 2 * _MAX_ASKED_CHARACTERS)
                calls.approvals.waiting[call.seq] = f"{title_of(target)}({arguments})"
            case CallEnded():
                self._report(event)
                _report_restart(event)
                _report_errors(event)
            case _:
                pass

    def _report(self, event: CallEnded) -> None:
        target, outcome, result = event.target, event.outcome, event.result
        decision, resumed = event.decision, event.calls.resumed
        report = CallReport(
            event.seq,
            target.server.name,
            target.name,
            outcome.status,
            outcome.milliseconds,
            result.bytes,
            result.tokens,
            outcome.error,
            arguments=summaries.of_arguments(event.call.arguments, event.calls.caller.redactor),
            result=result.text,
            effect=target.effect,
            has_error_text=result.unmarked_error is not None,
            is_replayed=isinstance(decision, Recorded) and not decision.is_assumed,
        )
        event.calls.reports.append(report)
        if resumed is not None and (earlier := resumed.unanswered.get(event.call.seq)):
            written = ", ".join(f"{name}={it}" for name, it in report.arguments.items())
            title = f"{title_of(target)}({clean_line(written, _MAX_ASKED_CHARACTERS)})"
            if isinstance(decision, Recorded):
                said = f"taken as arrived, with the result {result.text or 'None'}: {decision.reason}"
                event.calls.messages.append(f"{title}: not sent again; {said}")
            elif isinstance(decision, Allow):
                said = f"sent a second time, since call {earlier} of the earlier run got no answer"
                event.calls.messages.append(f"{title}: {said}")
            else:
                said = f"not sent again; call {earlier} of the earlier run got no answer, and may have happened"
                event.calls.messages.append(f"{title}: {said}")


def _report_restart(event: CallEnded) -> None:
    in_flight = event.calls.in_flight.pop(event.call.seq, None)
    if in_flight is not None and (restart := in_flight.progress.restart):
        name = event.target.server.name
        event.calls.messages.append(f"{name} was {restart} since its last call; its state may be gone")


def _test_for(reply: Reply | None, error: str) -> str:
    """How a program finds out that a result is such an error."""
    if reply is None or not isinstance(reply.value, str):
        return '"error" in result'
    head = "Traceback" if reply.value.lstrip().startswith("Traceback") else error.partition(":")[0]
    return f"str(result).startswith({head!r})"


def _report_errors(event: CallEnded) -> None:
    target, calls = event.target, event.calls
    if not isinstance(target, ToolTarget):
        return
    if unmarked := event.result.unmarked_error:
        found = UnmarkedErrors(
            title_of(target), unmarked, _test_for(event.reply, unmarked), calls.reports[-1].arguments
        )
        calls.unmarked_errors.setdefault((event.call.server, event.call.tool), found).seqs.append(event.seq)
    is_error_raised = event.outcome.status is CallStatus.FAILED and event.reply is None
    failure = unmarked or (event.outcome.error if is_error_raised else None)
    if failure is None or calls.has_workspace_message:
        return
    if message := message_on_path(title_of(target), event.call.arguments, failure):
        calls.has_workspace_message = True
        calls.messages.append(message)


_MAX_ASKED_CHARACTERS = 240
"""Length of one argument of a call that waits for approval; the model shows the call to the person."""
_MAX_VALUES = 1_000
_MAX_ERROR_CHARACTERS = 4_000
_MAX_PATH_CHARACTERS = 100
_PATH = re.compile(r"(?<![\w/.~-])/workspace(?![\w-])(?:/[^\s'\"`<>|;:,]*)?")


def message_on_path(title: str, arguments: JsonValue, failure: str) -> str | None:
    """The message for the model if a call of the tool `title` failed with an error that names such a path. The path is
    an argument or within one, as in a query: `select * from '/workspace/a.csv'`."""
    found = _PATH.search(failure[:_MAX_ERROR_CHARACTERS])
    if found is None:
        return None
    values = values_in(arguments, most=_MAX_VALUES)
    if not any(isinstance(value, str) and found[0] in _PATH.findall(value) for value in values):
        return None
    path = clean_line(found[0], _MAX_PATH_CHARACTERS)
    return (
        f"{title} failed on {path!r}: servers do not see the programs' /workspace; "
        "read and write its files in the program, and pass their content"
    )
