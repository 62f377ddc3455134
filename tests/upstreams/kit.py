"""Pools over real child processes, for the tests of this folder. Every wait is bounded."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import LimitSettings, ServerSettings, Settings
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.cache import CachedListing
from codemode_server.upstreams.connection_deps import Timings
from codemode_server.upstreams.messages import MAX_MESSAGE_BYTES
from codemode_server.upstreams.pool import UpstreamPool
from tests import fork_server
from tests.waiting import PATIENCE_S, until

SERVERS = Path(__file__).parent / "servers"
QUICK = Timings(
    probe_s=1.0,
    connect_s=15.0,
    list_s=10.0,
    call_wait_s=10.0,
    nudge_every_s=0.3,
    backoff_first_s=0.05,
    backoff_most_s=0.2,
    debounce_s=0.02,
)


@dataclass(slots=True)
class MemoryListingCache:
    """A `ListingCache` that lasts as long as the process."""

    kept: dict[str, tuple[str, CachedListing]] = field(default_factory=dict)

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        stored, listing = self.kept.get(name, (None, None))
        return listing if stored == fingerprint else None

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self.kept[name] = (fingerprint, listing)


@dataclass
class Kit:
    """What the tests of this folder say again and again."""

    cache: MemoryListingCache = field(default_factory=MemoryListingCache)

    def raw(self, kind: str, file: Path | None = None, **settings: Any) -> ServerSettings:
        """A server of `servers/raw.py`."""
        args = (str(SERVERS / "raw.py"), kind, *([str(file)] if file else []))
        return ServerSettings(command=sys.executable, args=args, **settings)

    def modern(self, log: Path | None = None, **settings: Any) -> ServerSettings:
        """The server of `servers/modern.py`, over stdio."""
        arguments = (str(SERVERS / "modern.py"), "stdio", "-", *([str(log)] if log else []))
        return ServerSettings(**fork_server.upstream(*arguments), **settings)

    @asynccontextmanager
    async def pool(
        self,
        servers: Mapping[str, ServerSettings],
        *,
        timings: Timings = QUICK,
        on_change: Callable[[], None] = lambda: None,
        settled: bool = True,
        secrets: Iterable[str] = (),
        call_bytes: int = MAX_MESSAGE_BYTES,
    ) -> AsyncGenerator[UpstreamPool]:
        limits = LimitSettings(call_bytes=call_bytes)
        config = LiveConfig(Settings(limits=limits), Redactor(secrets))
        made = UpstreamPool(servers, self.cache, on_change, timings=timings, config=config)
        async with made.open() as pool:
            pool.connect()
            if settled:
                assert await pool.wait_settled(PATIENCE_S)
            yield pool

    def listing(self, pool: UpstreamPool, name: str) -> UpstreamListing:
        return next(listing for listing in pool.listings() if listing.name == name)

    async def until(self, is_so: Callable[[], bool]) -> None:
        await until(is_so, PATIENCE_S)

    def is_ready(self, pool: UpstreamPool, name: str) -> bool:
        return self.listing(pool, name).state is UpstreamState.READY
