"""Many principals at once in one product: each has its turn, and no quota is exceeded at any moment."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest

from benchmarks.product import resident_mib
from codemode_server.app import App
from codemode_server.config import LoadedSettings
from codemode_server.config.live import RequestContext
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal, Session
from codemode_server.settings import LimitSettings, Settings, StateSettings

pytestmark = pytest.mark.slow

PRINCIPALS, EACH = 16, 4
PROGRAMS, OF_PRINCIPAL = 4, 2
MAX_GROWTH_MIB = 64


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_64_executions_of_16_principals_hold_the_quotas_and_all_succeed(tmp_path: Path) -> None:
    limits = LimitSettings(programs=PROGRAMS, principal_programs=OF_PRINCIPAL, queue_seconds=120)
    settings = Settings(limits=limits, state=StateSettings(dir=str(tmp_path)))
    before = resident_mib(os.getpid())
    most_at_once = most_of_principal = 0
    async with App.open(LoadedSettings(settings, None, tmp_path)) as app:
        app.connect()
        executions = [
            app.executions.start("1 + 1", context(app, f"user{number}", turn))
            for number in range(PRINCIPALS)
            for turn in range(EACH)
        ]
        while not all(execution.done.is_set() for execution in executions):
            running = Counter(
                execution.context.principal
                for execution in executions
                if execution.status is ExecutionStatus.RUNNING and not execution.done.is_set()
            )
            most_at_once = max(most_at_once, running.total())
            most_of_principal = max(most_of_principal, *running.values(), 0)
            await anyio.sleep(0.004)
        succeeded = sum(execution.status is ExecutionStatus.SUCCEEDED for execution in executions)
    assert succeeded == PRINCIPALS * EACH
    assert most_at_once == PROGRAMS, "the control: they did run at once"
    assert most_of_principal == OF_PRINCIPAL
    assert resident_mib(os.getpid()) - before < MAX_GROWTH_MIB


def context(app: App, name: str, turn: int) -> RequestContext:
    identity = Identity(Principal(PrincipalId(name)))
    return RequestContext.of(Session(f"{name}-{turn}", identity=identity), app.config)
