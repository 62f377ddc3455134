"""Whose program it is: one session to a host and never another's, however a host connects and whatever it claims.

What a session is, is read where it counts: in the record, in what the sandbox is given, and (`test_tracing`) in spans.
Clients and products are real; what no client sends is sent by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.product import configuration
from tests.files import contents
from tests.hosts.kit import SESSION_HEADER, Served, http_host, posted, recorded_sessions, serving

pytestmark = pytest.mark.slow

PROGRAM = {"name": "execute_code", "arguments": {"code": "6 * 7"}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "other", "version": "1"}}


async def test_over_http_each_client_keeps_a_session_of_its_own(tmp_path: Path) -> None:
    """In turns, so that it is not the time that tells them apart."""
    with serving(configuration(tmp_path, {})) as served:
        async with http_host(served, tmp_path, "legacy") as ada, http_host(served, tmp_path, "legacy") as bob:
            ran = [await one.execute() for one in (ada, bob, ada, bob)]
        async with http_host(served, tmp_path, "legacy") as again:
            ran.append(await again.execute())
        session = recorded_sessions(tmp_path)
        a, b, a_later, b_later, later = (session[execution] for execution in ran)
        assert (a_later, b_later) == (a, b)
        assert len({a, b, later}) == 3
        # Who knows what the transport issued is let in, so no record says it.
        (of_ada,), (of_bob,) = ada.issued, bob.issued
        files = b"".join(contents(tmp_path).values())
        assert a.encode() in files
        assert of_ada.encode() not in files
        assert of_bob.encode() not in files
        assert a not in of_ada, "nor a part of it"


async def test_over_http_without_sessions_each_request_is_its_own(tmp_path: Path) -> None:
    """Protocol 2026-07-28 has none, so a client that sends the header of another one is no more than itself."""
    with serving(configuration(tmp_path, {})) as served:
        async with http_host(served, tmp_path, "legacy") as ada:
            owner = await ada.execute()
            (issued,) = ada.issued
            async with (
                http_host(served, tmp_path, "auto") as bob,
                http_host(served, tmp_path, "auto", **{SESSION_HEADER: issued}) as eve,
            ):
                assert bob.client.protocol_version == eve.client.protocol_version == "2026-07-28"
                ran = [await one.execute() for one in (bob, bob, eve, eve)]
                assert set(eve.sent) == {issued}
            assert await ada.execute()
    session = recorded_sessions(tmp_path)
    assert len({session[execution] for execution in (owner, *ran)}) == 5
    assert list(session.values()).count(session[owner]) == 2, "its owner kept it"


async def test_over_http_a_session_that_was_not_issued_is_refused(tmp_path: Path) -> None:
    """What the session id rests on: no program of such a request gets as far as to us."""
    with serving(configuration(tmp_path, {})) as served:
        async with http_host(served, tmp_path, "legacy") as ada:
            owner = await ada.execute()
            (issued,) = ada.issued
            told = recorded_sessions(tmp_path)[owner]
            for made_up in ("1" * 32, issued[:-1], f"{issued}0", f"{issued},{issued}", told):
                assert post(served, "tools/call", PROGRAM, made_up) == 404
                assert post(served, "initialize", INITIALIZE, made_up) == 404
            assert post(served, "tools/call", PROGRAM, "") == 404
            assert post(served, "tools/call", PROGRAM) == 400
            assert len(recorded_sessions(tmp_path)) == 1
            assert post(served, "tools/call", PROGRAM, issued) == 200, "as its owner sends it"
            first, second = recorded_sessions(tmp_path).values()
            assert first == second
            assert post(served, "tools/call", PROGRAM, "1" * 32, issued) == 404
            assert post(served, "tools/call", PROGRAM, issued, "1" * 32) == 200
            assert set(recorded_sessions(tmp_path).values()) == {first}
        assert post(served, "tools/call", PROGRAM, issued) == 404, "it has ended with its host"


def post(served: Served, method: str, params: dict[str, Any], *sessions: str) -> int:
    return posted(served, method, params, *((SESSION_HEADER, session) for session in sessions))
