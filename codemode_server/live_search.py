"""The search over the current catalog and skills, with the encoders that the settings in force ask for."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread

from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.principals import Owner
from codemode_server.domain.skills import Skill
from codemode_server.executions.skills.library import SkillLibrary
from codemode_server.gateway.policy.refusals import Refusals
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults
from codemode_server.search.semantic import VectorCache
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.vector_ranker import vector_rankers
from codemode_server.settings import SearchSettings
from codemode_server.upstream_catalog import UpstreamCatalog
from codemode_server.workflows.folder import Workflows

_INDEX_AFTER_SECONDS = 0.2
_MAX_SEEN = 50
_FIELDS_OF_RANKERS = {"ranker", "model"}


class LiveSearch:
    """One ranker stack at a time; another takes its place when an edit of `search` asks for other encoders."""

    def __init__(
        self,
        config: LiveConfig,
        tools: UpstreamCatalog,
        refusals: Refusals,
        skills: SkillLibrary,
        workflows: Workflows,
        usage: UsageStats,
        vectors: VectorCache,
    ) -> None:
        self._config = config
        self._tools = tools
        self._refusals = refusals
        self._skills = skills
        self._workflows = workflows
        self._usage = usage
        self._vectors = vectors
        self._indexing = anyio.Lock()
        self._indexed: tuple[RankerStack, Catalog, list[Skill]] | None = None
        self._seen: dict[Owner, frozenset[Skill]] = {}
        """The skills of the sessions that searched last; all are indexed, and each session finds its own."""
        self._settings = config.settings.search
        self.stack = self._new_stack()

    async def search(
        self, context: RequestContext, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> SearchResults:
        """Search as `search_tools` does, for a model or a program.

        Raises:
            MetaToolError: an argument is not what it may be.
        """
        await self._tools.wait_for_listing()
        owner, refusals = context.owner, self._refusals.for_principal(context)
        stack = await self._ready(owner)
        catalog = self._tools.current()
        skills = self._seen.get(owner, frozenset())
        found = await anyio.to_thread.run_sync(  # an encoder in another process may be asked
            search_tools, catalog, stack, query, detail_level, server, limit, effect, refusals.of, skills
        )
        return found.marked(lambda tool: refusals.asks_first(catalog.server(tool.server), tool))

    async def _ready(self, owner: Owner | None = None) -> RankerStack:
        """The rankers with the current catalog and use, and the skills of a session, indexed off the event loop."""
        self._usage.load()
        async with self._indexing:
            stack, catalog = self.stack, self._tools.current()
            if owner is not None:
                entries = await anyio.to_thread.run_sync(self._entries, owner)
                self._seen.pop(owner, None)
                self._seen[owner] = frozenset(entries)
                while len(self._seen) > _MAX_SEEN:
                    del self._seen[next(iter(self._seen))]
            every = frozenset().union(*self._seen.values())
            skills = sorted(every, key=lambda it: (it.name, it.principal_id, it.execution_id, it.summary))
            if self._indexed != (stack, catalog, skills):
                await anyio.to_thread.run_sync(stack.index, collections(catalog, skills))
                self._indexed = stack, catalog, skills
        return stack

    def _entries(self, owner: Owner) -> list[Skill]:
        return [*self._skills.entries(owner), *self._workflows.entries()]

    async def keep_indexed(self) -> None:
        """Index changed listings in the background, so that the next search does not wait for it."""
        revision = 0
        while True:
            revision = await self._tools.wait_newer(revision)
            await anyio.sleep(_INDEX_AFTER_SECONDS)
            await self._tools.prepare()
            await self._ready()

    async def keep_encoders(self) -> None:
        """Run the encoders until cancelled; replace them after an edit that asks for others."""
        while True:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.stack.keep)
                await self._wait_for_other_rankers()
                self.stack = self._new_stack()
                tasks.cancel_scope.cancel()
            await self._ready()

    async def _wait_for_other_rankers(self) -> None:
        revision = self._config.revision
        while _of_rankers(self._config.settings.search) == _of_rankers(self._settings):
            revision = await self._config.wait_newer(revision)
        self._settings = self._config.settings.search

    def _new_stack(self) -> RankerStack:
        return RankerStack(vector_rankers(self._settings, self._vectors), self._usage.usage_boost)


def _of_rankers(settings: SearchSettings) -> dict[str, Any]:
    return settings.model_dump(include=_FIELDS_OF_RANKERS)
