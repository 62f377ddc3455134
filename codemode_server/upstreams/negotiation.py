"""Which protocol an upstream speaks: the newer one's probe, the older one's handshake, and what the probe may break.

mcp's own `negotiate_auto` waits 10 s for a server that ignores unknown methods before it tries the handshake. Here the
handshake is sent beside the unanswered probe after a short time, and the first good answer decides. A server that is
merely slow to start reads the probe first and is found to be modern all the same; one that ignores it costs 3 s, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.upstreams._link import Link, is_end

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.exceptions import MCPError


class ProbeEndedConnection(Exception):
    """Raised when the connection ended between the probe and any answer: an old server that died of it, perhaps."""


@dataclass(slots=True)
class _Answer:
    """The answer to one of the two requests: none yet, a result, or an error."""

    result: Any = None
    error: Exception | None = None
    given: anyio.Event = field(default_factory=anyio.Event)


async def negotiate(link: Link, *, legacy: bool, probe_s: float) -> bool:
    """Agree on a protocol. Returns whether the server should get the handshake at once the next time. Raises
    `ProbeEndedConnection`: connect again, with `legacy`; `MCPError`, `RuntimeError`, `ValueError`: the server refuses,
    or its answer is none."""
    session = link.session
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
    if handshake.result is not None:
        return not probe.given.is_set()
    if is_end(probe.error):
        raise ProbeEndedConnection from probe.error
    if handshake.error is not None and probe.result is None:
        raise handshake.error
    await _adopt_or_shake_hands(session, probe.result)
    return False


async def _probe(session: ClientSession, answer: _Answer, decided: anyio.Event) -> None:
    """Ask until there is an answer: mcp gives up each time after 10 s, and drops an answer that comes later. A server
    that refuses the version and names another modern one is asked once more, with that."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import REQUEST_TIMEOUT
    from mcp_types.version import LATEST_MODERN_VERSION

    version, is_second = LATEST_MODERN_VERSION, False
    while not answer.given.is_set():
        try:
            answer.result = await session.send_discover(version)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                continue
            offered = None if is_second else _offered_version(error)
            if offered is not None:
                version, is_second = offered, True
                continue
            answer.error = error
        else:
            decided.set()
        answer.given.set()


def _offered_version(error: MCPError) -> str | None:
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    data = error.error.data
    supported = data.get("supported") if isinstance(data, dict) else None
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(supported, list):
        return None
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in supported), None)


async def _shake_hands(
    session: ClientSession, answer: _Answer, probe: _Answer, decided: anyio.Event, patience_s: float
) -> None:
    """A refusal is not final at once: a modern server refuses the handshake, and answers the probe."""
    from mcp.shared.exceptions import MCPError

    try:
        answer.result = await session.initialize()
    except (MCPError, RuntimeError, ValueError) as error:
        with anyio.move_on_after(patience_s):
            await probe.given.wait()
        answer.error = error
    decided.set()


async def _adopt_or_shake_hands(session: ClientSession, discovered: Any) -> None:
    """Take the modern protocol if the probe's answer offers it; everything else is an older server."""
    from mcp_types import DiscoverResult
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    try:
        result = DiscoverResult.model_validate(discovered)
    except ValueError:  # an error, or no such answer
        await session.initialize()
        return
    if any(version in MODERN_PROTOCOL_VERSIONS for version in result.supported_versions):
        session.adopt(result)
    else:
        await session.initialize()
