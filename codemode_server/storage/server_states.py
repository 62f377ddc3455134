"""The states of servers, as each running product reports them to commands and pages.

A report counts as long as the process that wrote it is alive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from codemode_server.storage.cache import Cache
from codemode_server.storage.ownership import Ownership


@dataclass(frozen=True, slots=True)
class ServerState:
    state: str
    """An `UpstreamState`."""
    since: float
    """Seconds since 1970."""
    error: str = ""
    """Why it is not ready, or of its last attempt, for the person; without secrets and personal data."""


@dataclass(frozen=True, slots=True)
class RunningProduct:
    config: str
    """The path of its configuration; empty if it has none."""
    pid: int
    started_at: float
    """Seconds since 1970."""
    servers: Mapping[str, ServerState]
    """By raw name."""


class ServerStates:
    def __init__(self, cache: Cache, ownership: Ownership) -> None:
        self._cache = cache
        self._ownership = ownership

    def report(self, product: RunningProduct) -> None:
        """Replace the report of this process; returns before it is stored."""
        if (owner := self._ownership.name()) is not None:
            self._cache.put({(owner,): json.dumps(asdict(product)).encode()})

    def running(self, config: str) -> list[RunningProduct]:
        """The products that run with this configuration, the newest first. Blocks. Raises as `Ownership.others`."""
        alive = self._ownership.others()
        reports = [_product(value) for (owner,), (value, _) in self._cache.load().items() if owner in alive]
        found = [it for it in reports if it is not None and it.config == config]
        return sorted(found, key=lambda it: it.started_at, reverse=True)


def _product(value: bytes) -> RunningProduct | None:
    """None for a report of another version."""
    with suppress(ValueError, TypeError):
        members: dict[str, Any] = json.loads(value)
        servers = {name: ServerState(**it) for name, it in members.pop("servers").items()}
        return RunningProduct(**members, servers=servers)
    return None
