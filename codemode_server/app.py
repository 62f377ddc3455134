"""Builds every object of a product once, starts and stops them; has no rules of its own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.calls.policy.refusals import Refusals
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.principals import Principal
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.preflight.preflight import Preflight
from codemode_server.executions.workspace import Workspace
from codemode_server.features import create, provided
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.mcp_server.server import McpServer
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.search.usage_stats import UsageStats
from codemode_server.startup import background
from codemode_server.startup.background import SandboxStart
from codemode_server.startup.call_layers import product_gateway
from codemode_server.startup.execution_layers import executions
from codemode_server.startup.live_search import LiveSearch
from codemode_server.startup.stores import state_folder
from codemode_server.startup.takeover import ConfigTakeover
from codemode_server.startup.upstream_catalog import UpstreamCatalog
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.support import temporary
from codemode_server.support.allocator import return_large_blocks
from codemode_server.support.off_loop import switch_threads_often

if TYPE_CHECKING:
    from codemode_server.features.approvals.approver import PersonApprover
    from codemode_server.features.guardrails.chain import GuardrailChain
    from codemode_server.features.learned_types.learning import Learning
    from codemode_server.features.privacy.call_privacy import Privacy
    from codemode_server.features.resume.reruns import Reruns
    from codemode_server.features.savings.exchanges import Exchanges
    from codemode_server.features.session_logs.session_log import SessionLogs
    from codemode_server.features.skills.library import SkillLibrary
    from codemode_server.features.skills.program_skills import ProgramSkills
    from codemode_server.features.telemetry.product_telemetry import Telemetry
    from codemode_server.features.workflows.compiling import Workflows

_CHECKED_SECONDS, _CHECK_SECONDS, _RETRY_SECONDS = 1.0, 2.0, 30.0
"""How long an answer to `why_not_ready` holds, may take to find out, and until a sandbox that failed is tried again."""
_MIN_FREE_BYTES = 1 << 20
_MAX_WORKSPACES = 1_000
"""Principals whose workspaces are not checked anew for each program."""


class App:
    """One product: everything between a host and its upstreams. Created by `open`."""

    def __init__(
        self, loaded: LoadedSettings, tools: UpstreamCatalog | None = None, *, has_mcp_tracing: bool = True
    ) -> None:
        """Reads the database, so call it in a thread; `tools` is what has read it already. Raises
        `JournalUnavailable`: the database can't be used; `SettingsError`: a guardrail can't be loaded; `NotPrivate`:
        another user could have made a folder of the state."""
        self.tools = tools = tools or UpstreamCatalog(loaded)
        settings = loaded.settings
        self.state_folder = state_folder(settings)
        self.principal = local_principal(settings)
        self.config, self.stores, self.pool = tools.config, tools.stores, tools.pool
        self.catalog = tools.current
        self.takeover = ConfigTakeover(loaded, self.config, has_mcp_tracing=has_mcp_tracing)
        self.has_upstreams = True
        self._checking, self._checked_until, self._not_ready, self._retry_at = anyio.Lock(), 0.0, "", 0.0
        self.is_ending = threading.Event()
        """Tells work in threads to stop; the process can't end before it."""
        self.privacy: Privacy | None = create("privacy", self.config, self.stores.thread, self.stores.token_cipher)
        self.usage = UsageStats(self.stores.uses, self.config)
        self.saved: list[Learning | UsageStats] = [it for it in (tools.learning, self.usage) if it is not None]
        """What is written every second and at the end."""
        self.workspace = lru_cache(_MAX_WORKSPACES)(partial(Workspace, self.state_folder))
        self.workspace(self.principal).check_usable()
        self.skills: SkillLibrary | None = create("skills", self.state_folder, self.config)
        self.workflows: Workflows | None = create("workflows", Path(settings.state.workflows))
        self.refusals = Refusals(self.config, self.tools.definitions.refusal)
        self.search = LiveSearch(
            self.config,
            self.tools,
            self.refusals,
            self.skills,
            self.workflows,
            self.usage,
            self.stores.vectors,
        )
        self.artifacts = ArtifactStore(
            self.state_folder / "kept",
            settings.limits.kept_mb * 2**20,
            settings.state.kept_mb * 2**20,
        )
        self.sandbox_start = SandboxStart(self.config, self.workspace(self.principal))
        self.sandbox = Sandbox(self.sandbox_start.choose)
        self.telemetry: Telemetry | None = create("telemetry", self)
        self.sources = ReadSources(self.config, self.stores.sources, self.stores.journal.note_unwritten)
        self.stores.sources.settle(self.stores.ownership, lambda principal: self.workspace(principal).newest_change())
        self.session_logs: list[SessionLogs] = [it(self.workspace, self.config) for it in provided("session_logs")]
        self.approver: PersonApprover | None = create("approver", self)
        self.guardrails: GuardrailChain | None = create("guardrail_chain", self.config)
        self.gateway = product_gateway(self)
        self.preflight = Preflight(catalog=self.catalog, listed=self.tools.wait_for_listing, config=self.config)
        self.program_skills: ProgramSkills | None = create(
            "program_skills", self.skills, self.preflight, self.sources, self.sandbox
        )
        self.executions = executions(self)
        self.reruns: Reruns | None = create(
            "reruns",
            self.executions,
            self.stores.journal,
            self.gateway.effect_of,
            self.config,
            self.sources,
            partial(settle_before_reading, self.stores.database, self.stores.ownership),
        )
        self.exchanges: list[Exchanges] = [
            it(self.stores.thread, self.catalog, self.config) for it in provided("exchanges")
        ]

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        loaded: LoadedSettings,
        *,
        tools: UpstreamCatalog | None = None,
        watch: bool = False,
        has_mcp_tracing: bool = True,
    ) -> AsyncIterator[App]:
        """A running product. It starts its upstreams and sandboxes once the host has its first answer or `connect` is
        called, and ends all of them on exit. Without `has_mcp_tracing`, `tracing.mcp` is off."""
        return_large_blocks()
        switch_threads_often()
        app = await anyio.to_thread.run_sync(partial(cls, loaded, tools, has_mcp_tracing=has_mcp_tracing))
        app.tools.expect_tools()
        try:
            async with (
                app.sandbox.open(),
                app.pool.open(),
                _opened(*app.session_logs),
                app.executions.open(),
                _opened(*app.exchanges, app.approver),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(background.run, app)
                if watch and loaded.place is not None:
                    tasks.start_soon(app.takeover.watch, loaded.place, app)
                try:
                    yield app
                finally:
                    app.is_ending.set()
                    app.stores.upkeep.end()
                    tasks.cancel_scope.cancel()
        finally:
            app.artifacts.close()
            temporary.close()
            if app.telemetry is not None:
                app.telemetry.shutdown()
            with anyio.CancelScope(shield=True):
                for one in app.saved:
                    await one.save()
                # It waits for the disk, and up to five seconds for another product's lock.
                await anyio.to_thread.run_sync(app.stores.close, limiter=anyio.CapacityLimiter(1))

    @property
    def loaded(self) -> LoadedSettings:
        return self.takeover.loaded

    @cached_property
    def front(self) -> McpServer:
        """An MCP server for this product, for clients in the same process."""
        front = McpServer()
        front.set_ready(self)
        return front

    async def why_not_ready(self) -> str:
        """See `Product`. It looks once a second at most, however often anybody asks."""
        async with self._checking:
            if anyio.current_time() >= self._checked_until:
                self._not_ready = await self._find_not_ready()
                self._checked_until = anyio.current_time() + _CHECKED_SECONDS
            return self._not_ready

    async def _find_not_ready(self) -> str:
        if self.sandbox.level is None:
            if not self.sandbox.is_starting and anyio.current_time() >= self._retry_at:
                self._retry_at = anyio.current_time() + _RETRY_SECONDS
                self.sandbox.start_soon()
            return "no sandbox yet"
        try:
            with anyio.fail_after(_CHECK_SECONDS):
                await self.stores.thread.run(lambda _: None)  # takes the lock of writers
                usage = await anyio.to_thread.run_sync(shutil.disk_usage, self.state_folder)
        except (CodemodeError, OSError):
            return "the storage can't be written"
        return "" if usage.free >= _MIN_FREE_BYTES else "the storage is full"

    def metrics_text(self, principal: Principal | None) -> str | None:
        """The answer to `/metrics` over HTTP, by who asks."""
        return None if self.telemetry is None else self.telemetry.text_over_http(principal)

    def connect(
        self, features: frozenset[Feature] = frozenset(), folder: str = "", *, with_upstreams: bool = True
    ) -> None:
        """Start the upstreams and the sandbox. Further calls only tell upstreams of further features of hosts.
        `folder`: where the first host works."""
        self.has_upstreams = with_upstreams
        self.pool.declare(features, folder)
        self.tools.connected.set()

    @property
    def activity(self) -> str:
        """The current start-up step of the sandbox; empty when it is ready."""
        return self.sandbox_start.step


@asynccontextmanager
async def _opened(*parts: SessionLogs | Exchanges | PersonApprover | None) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for it in parts:
            if it is not None:
                await stack.enter_async_context(it.open())
        yield
