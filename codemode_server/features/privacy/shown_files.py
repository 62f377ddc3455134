"""Says what is done with shown files in which personal data can't be searched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.features.privacy.settings import PrivacySettings


class SearchedFiles(ExecutionLayer):
    def is_for(self, execution: Execution) -> bool:
        return True  # direct tools and prompts have files too

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        config = execution.caller.config
        execution.unsearched_files = lambda: (
            PrivacySettings.of(config.settings).unsearched_files
        )  # an edit counts at once
        yield
