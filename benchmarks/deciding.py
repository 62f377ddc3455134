"""What permissions, journal and audit add to a call: the gateway with them on disk over the gateway without.

The upstream is in this process and answers at once, so nothing else is timed. The calls of both gateways alternate,
with the pause between them that a program makes in its sandbox; meanwhile the outcome of a call is recorded.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.gateway.call_audit import CallAudit
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.gateway import Gateway
from codemode_server.gateway.policy.policy import Policy
from codemode_server.gateway.targets import ToolTarget
from codemode_server.settings import PermissionSettings, Settings
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.stores import Stores
from codemode_server.testing.memory_journal import MemoryJournal
from codemode_server.testing.memory_upstreams import MemoryUpstreams

NAME = ExecutionId("x0000000000b")
TEXT = {"type": "string"}
TOOL = ToolDefinition(
    "create_issue", input_schema={"type": "object", "properties": {"owner": TEXT, "title": TEXT, "body": TEXT}}
)
CATALOG = Catalog.build([UpstreamListing("github", UpstreamState.READY, (TOOL,))])
_PAUSE_S = 0.0006
"""About the time that a program takes between the answer to a call and its next one."""
ARGUMENTS = {"owner": "acme", "title": "A title", "body": "A sentence of an issue. " * 40}


def rules() -> PermissionSettings:
    """50 rules on other tools, then ten conditions of which the last one is true."""
    others = [{"deny": f"server{number}/delete_*"} for number in range(25)]
    others += [{"ask": f"github/other_{number}_*"} for number in range(25)]
    conditions = [
        {"allow": "github/create_*", "when": f'args.owner == "owner{number}" && size(args.body) < 10000'}
        for number in range(9)
    ]
    last = {"allow": "github/create_*", "when": 'args.owner == "acme" && size(args.body) < 10000'}
    return PermissionSettings.model_validate({"default": "deny", "rules": [*others, *conditions, last]})


@dataclass(frozen=True)
class Costs:
    decision_ms: float
    """p50 of the decision alone."""
    added_ms: float
    """p50 of what a call takes longer with the rules, the journal on disk and the audit."""


async def costs(calls: int = 1_000) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        config = LiveConfig(Settings(permissions=rules()))
        database = Database(Path(folder))
        stores = Stores(Path(folder), database, DatabaseThread(Path(folder)), config.settings.state)
        full = Gateway(
            catalog=lambda: CATALOG,
            upstreams=MemoryUpstreams({"number": 7}),
            journal=stores.journal,
            config=config,
            subscribers=[CallAudit(stores.audit, config)],
        )
        bare = Gateway(
            catalog=lambda: CATALOG,
            upstreams=MemoryUpstreams({"number": 7}),
            journal=MemoryJournal(),
            config=LiveConfig(),
        )
        timed: tuple[list[float], list[float]] = ([], [])
        try:
            executions = [_execution(config), _execution(LiveConfig())]
            record = ExecutionRecord(
                *(NAME, executions[0].context.principal, Session("s"), IsolationLevel.WASM, ExecutionStatus.RUNNING),
                started_at=time.time(),
                code="",
            )
            await stores.journal.begin_execution(record)
            for _ in range(calls):
                for gateway, execution, times in zip((full, bare), executions, timed, strict=True):
                    await anyio.sleep(_PAUSE_S)
                    started = time.perf_counter()
                    await gateway.call(execution, "github", "create_issue", dict(ARGUMENTS))
                    times.append((time.perf_counter() - started) * 1e3)
            # What the audit has queued is written before this is.
            await stores.journal.end_execution(
                NAME, ExecutionStatus.SUCCEEDED, error=None, calls=calls, milliseconds=0.0
            )
        finally:
            stores.close()
    return Costs(_decision_ms(config, calls), statistics.median(timed[0]) - statistics.median(timed[1]))


def _decision_ms(config: LiveConfig, calls: int) -> float:
    policy, execution = Policy(config), _execution(config)
    target, times = ToolTarget(CATALOG.server("github"), CATALOG.tool("github", "create_issue")), []
    for _ in range(calls):
        started = time.perf_counter()
        policy.decide(execution, target, ARGUMENTS)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def _execution(config: LiveConfig) -> ExecutionCalls:
    return ExecutionCalls(NAME, RequestContext.of(Session("s"), config))
