"""64 executions of 16 principals at once, over the same number one after the other: what many users cost each other.

The product is in this process, with real sandboxes; quotas are on, and looked at all the time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio

from codemode_server.app import App
from codemode_server.config import LoadedSettings
from codemode_server.config.live import RequestContext
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal, Session
from codemode_server.executions.execution import Execution
from codemode_server.settings import LimitSettings, Settings, StateSettings

PRINCIPALS, EACH = 16, 4
PROGRAMS, OF_PRINCIPAL = 4, 2
_SAMPLE_S = 0.004


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured."""

    alone_ms: float
    """Median of one execution of `1 + 1` with nothing beside it."""
    p95_ms: float
    """Of one of those at once, from its start, so with its wait."""
    ratio: float
    """Time for all at once over that for as many one after the other."""
    most_at_once: int
    most_of_principal: int
    succeeded: int


async def measure() -> Load:
    """Run them."""
    with tempfile.TemporaryDirectory() as folder:
        limits = LimitSettings(programs=PROGRAMS, principal_programs=OF_PRINCIPAL, queue_seconds=120)
        settings = Settings(limits=limits, state=StateSettings(dir=folder))
        async with App.open(LoadedSettings(settings, None, Path(folder))) as app:
            app.connect()
            contexts = [_context(app, f"user{number}", turn) for number in range(PRINCIPALS) for turn in range(EACH)]
            await _at_once(app, contexts, 1.0)  # the sandbox starts as many workers as it needs
            alone = [await _one(app, contexts[0]) for _ in range(len(contexts) // 2)][5:]
            return await _at_once(app, contexts, statistics.median(alone))


def _context(app: App, name: str, turn: int) -> RequestContext:
    identity = Identity(Principal(PrincipalId(name)))
    return RequestContext.of(Session(f"{name}-{turn}", identity=identity), app.config)


async def _one(app: App, context: RequestContext) -> float:
    began = time.perf_counter()
    await app.executions.start("1 + 1", context).done.wait()
    return (time.perf_counter() - began) * 1e3


async def _at_once(app: App, contexts: list[RequestContext], alone_ms: float) -> Load:
    times: list[float] = []
    most, most_of_one = 0, 0
    began = time.perf_counter()
    executions = [app.executions.start("1 + 1", context) for context in contexts]

    async def wait(execution: Execution) -> None:
        await execution.done.wait()
        times.append((time.perf_counter() - began) * 1e3)

    async with anyio.create_task_group() as tasks:
        for execution in executions:
            tasks.start_soon(wait, execution)
        while len(times) < len(executions):
            running = [it for it in executions if it.status is ExecutionStatus.RUNNING and not it.done.is_set()]
            by_principal = Counter(it.context.principal for it in running)
            most, most_of_one = max(most, len(running)), max(most_of_one, *by_principal.values(), 0)
            await anyio.sleep(_SAMPLE_S)
    return Load(
        alone_ms,
        statistics.quantiles(times, n=20)[18],
        max(times) / (alone_ms * len(times)),
        most,
        most_of_one,
        sum(it.status is ExecutionStatus.SUCCEEDED for it in executions),
    )
