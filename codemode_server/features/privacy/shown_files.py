"""Says what is done with shown files in which personal data can't be searched."""

from __future__ import annotations

from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.features.privacy.settings import PrivacySettings


class SearchedFiles(ExecutionLayer):
    async def prepare(self, execution: Execution) -> None:
        settings = execution.context.config.settings
        execution.unsearched_files = PrivacySettings.of(settings).unsearched_files
