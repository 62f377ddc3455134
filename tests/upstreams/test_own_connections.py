"""When connections end that are not everybody's. No server is started."""

from __future__ import annotations

import anyio
import pytest

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.principals import Session
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.connection_deps import ConnectionDeps
from codemode_server.upstreams.own_connections import ConnectionKey, OwnConnections
from tests.upstreams.kit import MemoryListingCache

pytestmark = pytest.mark.anyio


async def test_one_ends_when_it_is_unused_unless_a_session_that_has_used_it_goes_on() -> None:
    """A server may hold state for that session. A program that goes on after its session keeps nothing, and a host
    whose connection to the running server broke goes on with its session."""
    deps = ConnectionDeps(MemoryListingCache(), Reaper(), lambda: None)
    shared = Connection("s", ServerSettings(command="x", enabled=False), deps)
    own = OwnConnections(deps, None, idle_s=0.05)
    going_on, has_left, over_http = Session("a", folder="/a"), Session("b", folder="/b"), Session("c")
    own.attached = attached = {"a"}
    used = list[Connection]()
    async with anyio.create_task_group() as tasks:

        def use(session: Session) -> None:
            key = ConnectionKey("s", folder=f"/{session.session_id}")
            with own.using(key, shared, session, frozenset(), tasks) as connection:
                used.append(connection)

        async def until_left(count: int) -> None:
            with anyio.fail_after(30):
                while own.counts().get("s", 0) != count:
                    await anyio.sleep(0.01)

        for session in (going_on, has_left, over_http):
            use(session)
        await until_left(1)
        use(over_http)
        await until_left(1)
        use(going_on)
        assert used[-1] is used[0]
        attached.remove("a")
        await until_left(0)
        attached.add("a")
        use(going_on)
        use(over_http)
        await until_left(1)
        attached.remove("a")
        await until_left(0)
