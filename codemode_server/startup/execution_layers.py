"""The layers of executions, in their order, and the service that is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemode_server.domain.calls import CallStatus
from codemode_server.executions.direct_calls import DirectCallRuns
from codemode_server.executions.execution import Execution
from codemode_server.executions.host_api import ProgramServices
from codemode_server.executions.layers import ExecutionLayer, ExecutionLayers
from codemode_server.executions.programs import ProgramRuns
from codemode_server.executions.recording import ExecutionRecorder
from codemode_server.executions.runner import ExecutionRunner
from codemode_server.executions.service import ExecutionService
from codemode_server.features import provided
from codemode_server.features.data_flow.followed_programs import FollowedPrograms
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName

if TYPE_CHECKING:
    from codemode_server.app import App


@dataclass(frozen=True, slots=True)
class CountedUse(ExecutionLayer):
    """Counts which tools answered."""

    usage: UsageStats

    def is_for(self, execution: Execution) -> bool:
        return bool(execution.calls.reports)

    async def after(self, execution: Execution) -> None:
        answered = [report for report in execution.calls.reports if report.status is CallStatus.SUCCEEDED]
        self.usage.used([ToolName(report.server, report.tool) for report in answered], execution.owner)


def executions(app: App) -> ExecutionService:
    layers = ExecutionLayers(
        [
            # Outermost: the wait for a turn belongs to its span.
            *([] if app.telemetry is None else [app.telemetry.execution_layer]),
            # At the end, before the answer: what it says of saved skills is part of that.
            *([] if app.program_skills is None else [app.program_skills]),
            # Before the sources, which say whether the log may have the program.
            *app.session_logs,
            FollowedPrograms(app.sources, app.workspace),
            # It sees the plan of a dry run, and results as people read them.
            *(it(app.guardrails) for it in provided("guarded_programs_layer")),
            # Anywhere: it only says what is done with files that the program shows.
            *(it() for it in provided("searched_files_layer")),
            # Within guardrails, which may replace the outcome but not these remarks.
            *(it() for it in provided("rerun_remarks_layer")),
            # Innermost: only the run itself sees the copy of a workspace.
            *(it(app.stores.journal, app.workspace) for it in provided("dry_runs_layer")),
            # Anywhere: it counts after the answer.
            CountedUse(app.usage),
        ]
    )
    services = ProgramServices(
        gateway=app.gateway,
        catalog=app.catalog,
        listed=app.tools.wait_for_listing,
        search=app.search.search,
        skills=app.program_skills,
        workflows=app.workflows,
        artifacts=app.artifacts,
    )
    programs = ProgramRuns(
        sandbox=app.sandbox,
        services=services,
        layers=layers,
        preflight=app.preflight,
        refusals=app.refusals.for_principal,
        workspaces=app.workspace,
    )
    runner = ExecutionRunner(
        programs=programs,
        direct_calls=DirectCallRuns(app.gateway, layers),
        layers=layers,
        artifacts=app.artifacts,
        recorder=ExecutionRecorder(app.stores.journal, app.config),
        config=app.config,
    )
    return ExecutionService(
        runner=runner,
        artifacts=app.artifacts,
        config=app.config,
        journal=app.stores.journal,
        has_dry_runs=bool(provided("dry_runs_layer")),
    )
