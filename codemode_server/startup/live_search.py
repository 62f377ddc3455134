"""The search over the current catalog and skills, with the encoders that the settings asked for at the start."""

from __future__ import annotations

import anyio
import anyio.to_thread

from codemode_server.calls.policy.refusals import Refusals
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.principals import Owner
from codemode_server.domain.skills import Skill
from codemode_server.mcp_server.product import Skills, Workflows
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.vector_ranker import vector_rankers
from codemode_server.startup.upstream_catalog import UpstreamCatalog
from codemode_server.storage.cache import Cache

_INDEX_AFTER_SECONDS = 0.2
_MAX_SEEN = 50


class LiveSearch:
    """One ranker stack, whose index follows the catalog and the skills."""

    def __init__(
        self,
        config: LiveConfig,
        tools: UpstreamCatalog,
        refusals: Refusals,
        skills: Skills | None,
        workflows: Workflows | None,
        usage: UsageStats,
        vectors: Cache,
    ) -> None:
        self._tools = tools
        self._refusals = refusals
        self._skills = skills
        self._workflows = workflows
        self._usage = usage
        self._indexing = anyio.Lock()
        self._indexed: tuple[Catalog, list[Skill]] | None = None
        self._seen: dict[Owner, frozenset[Skill]] = {}
        """The skills of the sessions that searched last; all are indexed, and each session finds its own."""
        self.stack = RankerStack(vector_rankers(config.settings.search, vectors), usage.usage_boost)

    async def search(
        self, caller: Caller, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> SearchResults:
        """Search as `search_tools` does, for a model or a program. Raises `MetaToolError`: an argument is invalid."""
        await self._tools.wait_for_listing()
        owner, refusals = caller.owner, self._refusals.for_principal(caller)
        await self._ready(owner)
        catalog = self._tools.current()
        skills, called = self._seen.get(owner, frozenset()), self._usage.servers_of(owner)
        found = await anyio.to_thread.run_sync(  # an encoder in another process may be asked
            search_tools, catalog, self.stack, query, detail_level, server, limit, effect, refusals.of, skills, called
        )
        return found.marked(lambda tool: refusals.asks_first(catalog.server(tool.server), tool))

    async def _ready(self, owner: Owner | None = None) -> None:
        """Index the current catalog and use, and the skills of a session, off the event loop."""
        async with self._indexing:
            catalog = self._tools.current()
            if owner is not None:
                entries = await anyio.to_thread.run_sync(self._entries, owner)
                self._seen.pop(owner, None)
                self._seen[owner] = frozenset(entries)
                while len(self._seen) > _MAX_SEEN:
                    del self._seen[next(iter(self._seen))]
            every = frozenset().union(*self._seen.values())
            skills = sorted(every, key=lambda it: (it.name, it.principal_id, it.execution_id, it.summary))
            if self._indexed != (catalog, skills):
                await anyio.to_thread.run_sync(self.stack.index, collections(catalog, skills))
                self._indexed = catalog, skills

    def _entries(self, owner: Owner) -> list[Skill]:
        skills = [] if self._skills is None else self._skills.entries(owner)
        return [*skills, *([] if self._workflows is None else self._workflows.entries())]

    async def keep_indexed(self) -> None:
        """Index changed listings in the background, so that the next search does not wait for it."""
        revision = 0
        while True:
            revision = await self._tools.wait_newer(revision)
            await anyio.sleep(_INDEX_AFTER_SECONDS)
            await self._tools.prepare()
            await self._ready()
