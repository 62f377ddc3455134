"""Where data came from: the tools that a session has called. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Session

WORKSPACE = "workspace"
"""The holder of what all sessions of a principal may have read from /workspace, in place of the id of a session."""
SESSION_LOGS = "session logs"
"""The holder of what they may have read from the logs that the product writes there."""
SHARED = (WORKSPACE, SESSION_LOGS)
EPHEMERAL = "ephemeral"
"""The holder for all sessions that end with their request."""
ANY_TOOL = "*"
"""In place of the tools of a server that has too many to hold them one by one."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tool that was called, or a kind of resource or prompt that was read."""

    server: str
    tool: str
    """Raw names; `resources/read` for any resource."""
    title: str
    """`server.tool`, as programs import it."""
    labels: frozenset[str]
    at: float
    """When it was called first, seconds since 1970; of the data in /workspace, when the program began that wrote it."""
    is_in_workspace: bool = False
    """True if another session read it, and wrote to /workspace."""

    @property
    def key(self) -> tuple[str, str]:
        return self.server, self.tool


class SourceSet:
    """The sources of one session, or of one workspace; those that were read first come first."""

    MAX_TOOLS = 500
    """For tools beyond this number, only the server is stored."""

    def __init__(self, sources: Iterable[Source] = (), *, renewed_after: float = math.inf) -> None:
        """`renewed_after`: seconds after which a source that is read again gets a new time."""
        self._renewed_after = renewed_after
        self._by_key: dict[tuple[str, str], Source] = {}
        self.add_all(sources)

    def __iter__(self) -> Iterator[Source]:
        return iter(tuple(self._by_key.values()))

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, source: Source) -> Source | None:
        """The source as it is held now, if that is new; None if nothing has changed."""
        if (new := self.new(source)) is not None:
            self._by_key[new.key] = new
        return new

    def new(self, source: Source) -> Source | None:
        """As `add`, of a source that is not added."""
        source = self.bounded(source)
        known = self._by_key.get(source.key)
        if known is not None:
            is_renewed = source.at - known.at > self._renewed_after
            at = source.at if is_renewed else min(known.at, source.at)
            if at == known.at and source.labels <= known.labels:
                return None
            source = replace(known, labels=known.labels | source.labels, at=at)
        return source

    def bounded(self, source: Source) -> Source:
        """A source as it is held here, beyond `MAX_TOOLS` without its tool."""
        if source.key in self._by_key or len(self._by_key) < self.MAX_TOOLS:
            return source
        return replace(source, tool=ANY_TOOL, title=f"{source.title.partition('.')[0]}.{ANY_TOOL}")

    def add_all(self, sources: Iterable[Source]) -> list[Source]:
        return [added for it in sources if (added := self.add(it)) is not None]


Holder = tuple[PrincipalId, str]
"""A principal, and the id of its session, one of `SHARED`, or the name of several sessions that count as one."""


def holder_in(session: Session) -> str:
    """The name of a session as a holder."""
    return EPHEMERAL if session.is_ephemeral else session.session_id
