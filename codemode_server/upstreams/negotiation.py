"""Which protocol an upstream speaks: the newer one's probe, the older one's handshake, and what the probe may break.

mcp's own `negotiate_auto` waits 10 s for a server that ignores unknown methods before it tries the handshake. Here the
handshake is sent beside the unanswered probe after a short time, and the first good answer decides. A server that is
merely slow to start reads the probe first and is found to be modern all the same; one that ignores it costs 3 s, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from codemode_server.upstreams.answers import ConnectionEnded, RequestFailed
from codemode_server.upstreams.repairs import Handshake

if TYPE_CHECKING:
    from codemode_server.upstreams.session import Session


class ProbeEndedConnection(Exception):
    """Raised when the connection ended between the probe and any answer: an old server that died of it, perhaps."""


@dataclass(slots=True)
class _Answer:
    """The answer to one of the two requests: none yet, a result, or an error."""

    result: Handshake | None = None
    error: RequestFailed | None = None
    given: anyio.Event = field(default_factory=anyio.Event)


async def negotiate(session: Session, *, legacy: bool, probe_s: float) -> bool:
    """Agree on a protocol. Returns whether the server should get the handshake at once the next time. Raises
    `ProbeEndedConnection`: connect again, with `legacy`; `RequestFailed`: the server refuses."""
    if legacy:
        await session.initialize()
        return True
    probe, handshake, decided = _Answer(), _Answer(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_probe, session, probe, decided)
        with anyio.move_on_after(probe_s):
            await probe.given.wait()
        if not probe.given.is_set():
            tasks.start_soon(_shake_hands, session, handshake, probe, decided, probe_s)
            await decided.wait()
        tasks.cancel_scope.cancel()
    if handshake.given.is_set() and handshake.error is None:
        return not probe.given.is_set()
    if isinstance(probe.error, ConnectionEnded):
        raise ProbeEndedConnection from probe.error
    if handshake.error is not None and probe.result is None:
        raise handshake.error
    if probe.result is None or not session.adopt_modern(probe.result):  # everything else is an older server
        await session.initialize()
    return False


async def _probe(session: Session, answer: _Answer, decided: anyio.Event) -> None:
    """A server that refuses the version and names another modern one is asked once more, with that."""
    from mcp_types.version import LATEST_MODERN_VERSION

    version: str | None = LATEST_MODERN_VERSION
    is_second = False
    while version is not None:
        try:
            answer.result, version = await session.discover(version), None
            decided.set()
        except RequestFailed as error:
            answer.error = error
            version, is_second = None if is_second else _offered_version(error), True
    answer.given.set()


def _offered_version(error: RequestFailed) -> str | None:
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(supported, list):
        return None
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in supported), None)


async def _shake_hands(
    session: Session, answer: _Answer, probe: _Answer, decided: anyio.Event, patience_s: float
) -> None:
    """A refusal is not final at once: a modern server refuses the handshake, and answers the probe."""
    try:
        await session.initialize()
    except RequestFailed as error:
        with anyio.move_on_after(patience_s):
            await probe.given.wait()
        answer.error = error
    answer.given.set()
    decided.set()
