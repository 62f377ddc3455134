"""The layers of executions, in their order."""

from __future__ import annotations

from dataclasses import dataclass

from codemode_server.domain.calls import CallStatus
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName


@dataclass(frozen=True, slots=True)
class CountedUse(ExecutionLayer):
    """Counts which tools answered."""

    usage: UsageStats

    def is_for(self, execution: Execution) -> bool:
        return bool(execution.calls.reports)

    async def after(self, execution: Execution) -> None:
        answered = [report for report in execution.calls.reports if report.status is CallStatus.SUCCEEDED]
        self.usage.used([ToolName(report.server, report.tool) for report in answered])
